/**
 * Reads the part of BEAM whose conversations have 100,000 tokens each. There are twenty conversations between a person
 * and a model, and 400 questions, 355 of which name the messages that contain the answer (`source_chat_ids`). We've
 * tuned only one thing on this data set, which is how much the length of a memory counts.
 */

/** Longer messages are split into several memories. */
const maxLength = 4_000;
const months = 'January February March April May June July August September October November December'.split(' ');

/**
 * Turns messages into memories. A question has to name at least one message of the conversation, or we skip it.
 * @param {string} id the conversation's id
 * @param {string} chat the content of `chat_trunecated.json` if the conversation has one, because its questions were
 * made from that part, or else of `chat.json`
 * @param {string} probingQuestions the content of `probing_questions.json`
 * @returns {import('./dataset.js').Conversation}
 */
export function parseBeam(id, chat, probingQuestions) {
  /** @type {{ turns: { id: number, role: string, content: string, time_anchor?: string }[][] }[]} */
  const batches = JSON.parse(chat);
  let date = '';
  const memories = batches.flatMap(({ turns }, batch) =>
    turns.flat().flatMap((message) => {
      // BEAM only dates the first message of each day, so the following ones get the same date.
      if (message.time_anchor) date = toDate(message.time_anchor);
      return splitText(message.content.trim(), maxLength).map((text, part) => ({
        id: `${id}/${message.id}/${part + 1}`,
        text,
        conversation: id,
        session: batch + 1,
        date,
        speaker: message.role,
        sources: [String(message.id)],
      }));
    }),
  );
  const known = new Set(memories.flatMap(({ sources }) => sources));
  /** @type {Record<string, { question: string, answer?: string, source_chat_ids?: unknown }[]>} */
  const byKind = JSON.parse(probingQuestions);
  const questions = Object.entries(byKind).flatMap(([kind, asked]) =>
    asked.flatMap(({ question, answer = '', source_chat_ids: named }) => {
      const sources = numbersIn(named).map(String);
      return sources.some((source) => known.has(source))
        ? [{ text: question, kind: kind.replaceAll('_', '-'), sources, answer: String(answer) }]
        : [];
    }),
  );
  return { id, half: null, memories, questions };
}

/**
 * Splits a text into parts of at most `limit` code units. We cut at a line break or, if there is none in the second
 * half of a part, at a space.
 * @param {string} text
 * @param {number} limit in UTF-16 code units
 */
export function splitText(text, limit) {
  const parts = [];
  let rest = text;
  while (rest.length > limit) {
    const cut = [rest.lastIndexOf('\n', limit), rest.lastIndexOf(' ', limit)].find((at) => at > limit / 2) ?? limit;
    const isInPair = /[\uD800-\uDBFF]/.test(rest.charAt(cut - 1));
    const end = isInPair ? cut - 1 : cut;
    parts.push(rest.slice(0, end).trim());
    rest = rest.slice(end).trim();
  }
  return [...parts, rest].filter((part) => part !== '');
}

/**
 * @param {unknown} value
 * @returns {number[]}
 */
function numbersIn(value) {
  if (typeof value === 'number') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(numbersIn) : [];
}

/** @param {string} text e.g. `March-15-2024` @returns {string} */
function toDate(text) {
  const [month = '', day, year] = text.split('-');
  const at = Date.UTC(Number(year), months.indexOf(month), Number(day));
  if (Number.isNaN(at) || !months.includes(month)) throw new Error(`BEAM: ${text} is not a date`);
  return new Date(at).toISOString();
}
