/**
 * Reads LoCoMo. In each of its ten conversations, two people talk over several months. Its authors derived statements
 * from each session (`observation`). The questions name the messages that contain the answer (`evidence`).
 */

/**
 * The names of the question categories. We leave out category 5, because its questions can't be answered from the
 * conversations.
 */
export const kinds = new Map([
  [1, 'multi-hop'],
  [2, 'temporal'],
  [3, 'open-domain'],
  [4, 'single-hop'],
]);
const months = 'January February March April May June July August September October November December'.split(' ');

/**
 * Turns the authors' statements into memories. We only keep questions if we have a memory for at least one of the
 * messages that they name. For the published file, this leaves 1,306 questions, and there are 2,541 memories for 2,554
 * messages.
 * @param {string} text the published file
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
    const questions = /** @type {any[]} */ (qa).flatMap(({ question, evidence, category, answer }) => {
      const kind = kinds.get(category);
      // The data set sometimes names several messages in one string.
      const sources = /** @type {string[]} */ (evidence).flatMap((named) => named.match(/D\d+:\d+/g) ?? []);
      return kind && sources.some((source) => known.has(source)) ? [{ text: question, kind, sources, answer: String(answer ?? '') }] : [];
    });
    // Only look at the tuned half when improving search. Never change this split, because all published results are
    // based on it.
    return { id, half: position % 2 === 0 ? /** @type {const} */ ('tuned') : /** @type {const} */ ('held-out'), memories, questions };
  });
}

/** @param {string} text e.g. `1:56 pm on 8 May, 2023`. The time zone is unknown, so we assume UTC @returns {string} */
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
