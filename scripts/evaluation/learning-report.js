import { formatCost } from './cost.js';

/**
 * @typedef {object} CaseResult
 * @property {string} id
 * @property {string} category
 * @property {number} must number of expectations in the case
 * @property {string[]} missed
 * @property {string[]} forbidden
 * @property {string[]} refusals
 * @property {string[]} mistakes mistakes of the scripted run
 * @property {string[]} learned
 * @property {number} cost
 * @property {number} durationMs
 */

/** @param {readonly CaseResult[]} results */
export function summarize(results) {
  const byCategory = Object.entries(Object.groupBy(results, ({ category }) => category)).map(([category, cases]) =>
    total(category, cases ?? []),
  );
  return { categories: byCategory, all: total('all', results) };
}

/** @param {string} category @param {readonly CaseResult[]} cases */
function total(category, cases) {
  /** @param {(each: CaseResult) => number} count */
  const sum = (count) => cases.reduce((before, each) => before + count(each), 0);
  return {
    category,
    conversations: cases.length,
    must: sum(({ must }) => must),
    learned: sum(({ must, missed }) => must - missed.length),
    forbidden: sum(({ forbidden }) => forbidden.length),
    refused: sum(({ refusals }) => refusals.length),
    cost: sum(({ cost }) => cost),
    seconds: Math.round(sum(({ durationMs }) => durationMs) / 100) / 10,
  };
}

/** @param {string} model @param {readonly CaseResult[]} results */
export function formatReport(model, results) {
  const { categories, all } = summarize(results);
  const rows = [...categories, all].map(
    ({ category, conversations, must, learned, forbidden, refused, cost, seconds }) =>
      `| ${category} | ${conversations} | ${learned} of ${must} | ${forbidden} | ${refused} | ${formatCost(cost)} | ${seconds} s |`,
  );
  const details = results.flatMap(({ id, missed, forbidden, mistakes }) => [
    ...missed.map((expected) => `${id}: not learned: ${expected}`),
    ...forbidden.map((text) => `${id}: must not be learned: ${text}`),
    ...mistakes.map((mistake) => `${id}: ${mistake}`),
  ]);
  return [
    `Model: ${model}`,
    '',
    '| Category | Conversations | Learned what it must | Learned what it must not | Refused statements | Cost | Time |',
    '| --- | --- | --- | --- | --- | --- | --- |',
    ...rows,
    ...(details.length > 0 ? ['', ...details] : []),
  ].join('\n');
}
