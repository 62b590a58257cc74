/** What is computed from the ranks of the answers. */

const depths = [1, 5, 10];

/** @typedef {{ kind: string, rank: number | null }} Outcome of a question; rank: of its first answer, from 1; null: not among the results */
/** @typedef {{ questions: number, hits: number[], mrr: number }} Score shares of 1; hits: at 1, 5 and 10 */

/**
 * The rank of the first result that answers the question. Results with equal scores have the order in which they were returned.
 * @param {readonly (readonly string[])[]} results the sources of each, best first
 * @param {readonly string[]} sources of the question; any of them is an answer
 */
export function rankOf(results, sources) {
  const index = results.findIndex((result) => result.some((source) => sources.includes(source)));
  return index < 0 ? null : index + 1;
}

/**
 * Mean reciprocal rank: an answer that is not among the results counts 0.
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

/** Of all questions, then of each kind in alphabetical order. @param {readonly Outcome[]} outcomes @returns {(Score & { kind: string })[]} */
export function toScores(outcomes) {
  const byKind = Map.groupBy(outcomes, ({ kind }) => kind);
  const kinds = [...byKind].sort(([a], [b]) => (a < b ? -1 : 1));
  return [{ kind: 'all', ...toScore(outcomes) }, ...kinds.map(([kind, of]) => ({ kind, ...toScore(of) }))];
}
