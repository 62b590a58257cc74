/**
 * BEAM, its tier of 100,000 tokens: twenty conversations of a person with a model, and questions that name the messages with their answer
 * (`source_chat_ids`), 355 of 400. Nothing is tuned on it.
 */

/** Of a memory; longer messages become several memories. */
const maxLength = 4_000;
const months = 'January February March April May June July August September October November December'.split(' ');

/**
 * Messages become memories. Questions without a message of the conversation do not count.
 * @param {string} id of the conversation
 * @param {string} chat `chat.json`, or where there is one `chat_trunecated.json`: the questions were made from that part of the conversation
 * @param {string} probingQuestions `probing_questions.json`
 * @returns {import('./dataset.js').Conversation}
 */
export function parseBeam(id, chat, probingQuestions) {
  /** @type {{ turns: { id: number, role: string, content: string, time_anchor?: string }[][] }[]} */
  const batches = JSON.parse(chat);
  let date = '';
  const memories = batches.flatMap(({ turns }, batch) =>
    turns.flat().flatMap((message) => {
      // Only the first message of a day has it.
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
  /** @type {Record<string, { question: string, source_chat_ids?: unknown }[]>} */
  const byKind = JSON.parse(probingQuestions);
  const questions = Object.entries(byKind).flatMap(([kind, asked]) =>
    asked.flatMap(({ question, source_chat_ids: named }) => {
      const sources = numbersIn(named).map(String);
      return sources.some((source) => known.has(source)) ? [{ text: question, kind: kind.replaceAll('_', '-'), sources }] : [];
    }),
  );
  return { id, half: null, memories, questions };
}

/**
 * Parts end at the last line break or space in their second half.
 * @param {string} text
 * @param {number} limit in UTF-16 units
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

/** The numbers in a value that is a list, or an object of lists. @param {unknown} value @returns {number[]} */
function numbersIn(value) {
  if (typeof value === 'number') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(numbersIn) : [];
}

/** @param {string} text such as `March-15-2024` @returns {string} */
function toDate(text) {
  const [month = '', day, year] = text.split('-');
  const at = Date.UTC(Number(year), months.indexOf(month), Number(day));
  if (Number.isNaN(at) || !months.includes(month)) throw new Error(`BEAM: ${text} is not a date`);
  return new Date(at).toISOString();
}
