/**
 * LoCoMo: ten conversations of two people over months, the statements that its authors made from each session (`observation`), and
 * questions that name the messages with their answer (`evidence`).
 */

/** `categories` of the questions; those of 5 have no answer in the conversation. */
export const kinds = new Map([
  [1, 'multi-hop'],
  [2, 'temporal'],
  [3, 'open-domain'],
  [4, 'single-hop'],
]);
const months = 'January February March April May June July August September October November December'.split(' ');

/**
 * Statements become memories. A question counts when a memory names one of its messages: in the published file 1,306 questions, over
 * 2,541 memories that name 2,554 messages.
 * @param {string} text of the published file
 * @returns {import('./dataset.js').Conversation[]}
 */
export function parseLocomo(text) {
  /** @type {any[]} */
  const samples = JSON.parse(text);
  return samples.map(({ sample_id: id, conversation, observation, qa }, position) => {
    const memories = Object.entries(observation).flatMap(([name, ofSession]) => {
      const session = Number(/^session_(\d+)_observation$/.exec(name)?.[1]);
      const date = toDate(conversation[`session_${session}_date_time`]);
      return Object.entries(/** @type {Record<string, [string, string | string[]][]>} */ (ofSession)).flatMap(([speaker, statements]) =>
        statements.map(([statement, evidence], index) => ({
          id: `${id}/${session}/${speaker}/${index + 1}`,
          text: statement,
          conversation: id,
          session,
          date,
          speaker,
          sources: [evidence].flat(),
        })),
      );
    });
    const known = new Set(memories.flatMap(({ sources }) => sources));
    const questions = /** @type {any[]} */ (qa).flatMap(({ question, evidence, category }) => {
      const kind = kinds.get(category);
      // Some have several messages in one text.
      const sources = /** @type {string[]} */ (evidence).flatMap((named) => named.match(/D\d+:\d+/g) ?? []);
      return kind && sources.some((source) => known.has(source)) ? [{ text: question, kind, sources }] : [];
    });
    // Halves as in every published result: what is changed by its results is measured on the tuned half only.
    return { id, half: position % 2 === 0 ? /** @type {const} */ ('tuned') : /** @type {const} */ ('held-out'), memories, questions };
  });
}

/** @param {string} text such as `1:56 pm on 8 May, 2023`; its time zone is unknown: UTC @returns {string} */
export function toDate(text) {
  const [, hour, minute, half, day, month, year] = /^(\d+):(\d\d) ([ap]m) on (\d+) (\w+), (\d{4})$/.exec(text) ?? [];
  const at = Date.UTC(
    Number(year),
    months.indexOf(month ?? ''),
    Number(day),
    (Number(hour) % 12) + (half === 'pm' ? 12 : 0),
    Number(minute),
  );
  if (Number.isNaN(at)) throw new Error(`LoCoMo: ${text} is not a date`);
  return new Date(at).toISOString();
}
