/**
 * Measures how ratings change what search finds. First, keys rate the results of every second question. Then we ask all
 * questions again. This shows what ratings do for the same questions, and whether they make the results of other
 * questions worse.
 */
import { rankOf, toScores } from './metrics.js';
import { toTable } from './report.js';

/** @typedef {import('./gateway.js').Stored} Stored */
/** @typedef {{ scenario: string, isRated: boolean, rank: number | null }} RatedOutcome */

/**
 * An honest key looks at the first ten results, and rates those that answer the question as useful. A lying key rates
 * these as wrong, and all others as useful.
 */
const scenarios = [
  { title: 'no ratings', honest: 0, lying: 0 },
  { title: 'one key', honest: 1, lying: 0 },
  { title: 'five keys', honest: 5, lying: 0 },
  { title: 'one key that lies', honest: 0, lying: 1 },
  { title: 'five keys that lie', honest: 0, lying: 5 },
  { title: 'an honest key and one that lies', honest: 1, lying: 1 },
  { title: 'five keys that lie in calls of somebody else', honest: 0, lying: 5, subject: 'somebody else' },
];
const depth = 10;

/**
 * @param {object} options
 * @param {import('./dataset.js').Conversation[]} options.conversations
 * @param {Pick<import('./gateway.js').Gateway, 'createKeys' | 'search' | 'rate' | 'moveVotes' | 'forgetRatings'>} options.gateway
 * @param {Stored[]} options.stored the project of each conversation
 */
export async function measureRatings({ conversations, gateway, stored }) {
  /** @type {RatedOutcome[]} */
  const outcomes = [];
  for (const [index, { half, questions }] of conversations.entries()) {
    const project = stored[index];
    if (!project || half === 'tuned') continue;
    const keys = await gateway.createKeys(project, 5);
    const found = await gateway.search(project, questions);
    for (const { title, honest, lying, subject } of scenarios) {
      for (const [number, question] of questions.entries()) {
        if (number % 2 !== 0) continue;
        for (const { id, sources } of (found[number] ?? []).slice(0, depth)) {
          const isAnswer = rankOf([sources], question.sources) !== null;
          for (const key of keys.slice(0, isAnswer ? honest : 0)) await gateway.rate(key, id, 'useful');
          for (const key of keys.slice(honest, honest + lying)) await gateway.rate(key, id, isAnswer ? 'wrong' : 'useful');
        }
      }
      if (subject !== undefined) await gateway.moveVotes(subject);
      const again = await gateway.search(project, questions);
      for (const [number, { sources }] of questions.entries()) {
        const results = (again[number] ?? []).map((result) => result.sources);
        outcomes.push({ scenario: title, isRated: number % 2 === 0, rank: rankOf(results, sources) });
      }
      await gateway.forgetRatings();
    }
  }
  return outcomes;
}

/** @param {readonly RatedOutcome[]} outcomes */
export function formatRatings(outcomes) {
  const rows = [...Map.groupBy(outcomes, ({ scenario }) => scenario)].map(([scenario, group]) => [
    scenario,
    ...[true, false].map((rated) => {
      const [all] = toScores(group.filter(({ isRated }) => isRated === rated).map(({ rank }) => ({ kind: '', rank })));
      return (all?.hits ?? []).map((share) => share.toFixed(3)).join(' / ');
    }),
  ]);
  return toTable(['Ratings by', 'hit@1 / hit@5 / hit@10 of the rated questions', 'of the other questions'], rows);
}
