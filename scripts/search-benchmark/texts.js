/**
 * Generates memories and questions about them. The seed of the random numbers is fixed, so you always get the same
 * texts.
 */

/** @param {number} [seed] @returns {() => number} numbers from 0 to 1 */
export function createRandom(seed = 42) {
  let state = seed;
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 4_294_967_296;
    return state / 4_294_967_296;
  };
}

const people = 'Ada Ben Carla Dev Elif Farid Greta Hugo Ines Jonas Kira Liam Maya Nils Olga Priya Quentin Rosa Samir Tessa'.split(' ');
const activities =
  'running,pottery,the choir,rock climbing,the book club,swimming,the allotment,photography,chess,the evening course,cycling,the food bank,yoga,dancing,woodwork,the school play,volunteering,birdwatching,skiing,the band'.split(
    ',',
  );
const things =
  'a new bicycle,a used piano,two tickets,a tent,the kitchen table,a sewing machine,a red coat,a laptop,an electric car,a birthday cake,hiking boots,the old camera,a houseboat,a rescue dog,a coffee grinder'.split(
    ',',
  );
const places =
  'Lisbon,the lake,the office in Leeds,a workshop near the harbour,Kyoto,the mountains,her parents’ farm,the community centre,Oslo,the new flat,a campsite in Wales,the hospital,the university,Naples,the garden centre'.split(
    ',',
  );
const reasons =
  'because the old one broke,after a long break,to spend more time with the children,as a present for a friend,since the doctor recommended it,before the move in spring,for the first time,because work became too stressful,for the shelter,and wants to do it again'.split(
    ',',
  );
const templates = [
  '{p} started {a} in {m} {r}.',
  '{p} bought {t} in {l} {r}; it cost {n} euros.',
  '{p} prefers {a} to {b} and goes every {d} evening.',
  '{p} is going to {l} with {q} in {m} {r}.',
  '{p} and {q} met at {l} on {n} {m} and talked about {a}.',
  '{p} no longer does {a}, {r}.',
  '{p} asked for a reminder to collect {t} from {l} before {d}.',
  'The order of {p} for {t} has the number {k}-{n}.',
  '{p} is allergic to {k} as {q} knows since the day at {l}.',
  '{p} works as a consultant for {k} near {l}, mostly on {d}s.',
];
const questionTemplates = [
  'When did {p} start {a}?',
  'What did {p} buy in {l}?',
  'Where did {p} and {q} meet?',
  'Does {p} still like {a}, or rather {b}?',
  'What is the number of the order of {p} for {t}?',
  'Who is going to {l} with {p} in {m}?',
  'What should I remember about {p} and {a}?',
];
const months = 'January,February,March,April,May,June,July,August,September,October,November,December'.split(',');
const days = 'Monday,Tuesday,Wednesday,Thursday,Friday,Saturday,Sunday'.split(',');
const syllables = 'ka lo mi ne ru sa te vi zo be du fi'.split(' ');

/** @param {() => number} random */
export function createTexts(random) {
  /**
   * Picks an entry by Zipf's law. The closer an entry is to the start of the list, the more often it's picked.
   * @param {readonly string[]} list
   */
  const pick = (list) => list[Math.floor(list.length ** random()) - 1] ?? list[0] ?? '';
  /** Generates one of 20,000 names. Most of them are rare. */
  const rareName = () => {
    let name = '';
    for (let rest = Math.floor(20_000 ** random()) + syllables.length; rest > 0; rest = Math.floor(rest / syllables.length))
      name += syllables[rest % syllables.length];
    return `${name.charAt(0).toUpperCase()}${name.slice(1)}`;
  };
  /** @type {Readonly<Record<string, () => string>>} */
  const fields = {
    p: () => pick(people),
    q: () => pick(people),
    a: () => pick(activities),
    b: () => pick(activities),
    t: () => pick(things),
    l: () => pick(places),
    r: () => pick(reasons),
    m: () => pick(months),
    d: () => pick(days),
    n: () => String(1 + Math.floor(random() * 28)),
    k: rareName,
  };
  /** @param {readonly string[]} from */
  const fill = (from) => (from[Math.floor(random() * from.length)] ?? '').replaceAll(/\{(\w)\}/g, (_, name) => fields[name]?.() ?? '');
  return { memory: () => fill(templates), question: () => fill(questionTemplates) };
}
