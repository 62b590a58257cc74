const depths = [1, 5, 10];

/**
 * @typedef {{ kind: string, rank: number | null }} Outcome the outcome of a question. `rank` is the position of its
 * first answer, starting at 1, or null if no result is an answer
 */
/**
 * @typedef {{ questions: number, hits: number[], mrr: number }} Score `hits` are the shares of questions with an answer
 * in the first 1, 5 and 10 results
 */

/**
 * Returns the rank of the first result that answers the question, starting at 1.
 * @param {readonly (readonly string[])[]} results the sources of each result, best first
 * @param {readonly string[]} sources the question's sources. A result that has any of them is an answer
 */
export function rankOf(results, sources) {
  const index = results.findIndex((result) => result.some((source) => sources.includes(source)));
  return index < 0 ? null : index + 1;
}

/**
 * Calculates the share of hits and the mean reciprocal rank. A question without an answer among its results counts as
 * 0.
 * @param {readonly Outcome[]} outcomes
 * @returns {Score}
 */
function toScore(outcomes) {
  /** @param {(rank: number) => number} worth */
  const mean = (worth) => outcomes.reduce((sum, { rank }) => sum + (rank === null ? 0 : worth(rank)), 0) / outcomes.length;
  return {
    questions: outcomes.length,
    hits: depths.map((depth) => mean((rank) => (rank <= depth ? 1 : 0))),
    mrr: mean((rank) => 1 / rank),
  };
}

/**
 * Calculates the scores of all questions together, and then those of each kind of question.
 * @param {readonly Outcome[]} outcomes
 * @returns {(Score & { kind: string })[]}
 */
export function toScores(outcomes) {
  const byKind = Map.groupBy(outcomes, ({ kind }) => kind);
  const kinds = [...byKind].sort(([a], [b]) => (a < b ? -1 : 1));
  return [{ kind: 'all', ...toScore(outcomes) }, ...kinds.map(([kind, group]) => ({ kind, ...toScore(group) }))];
}
