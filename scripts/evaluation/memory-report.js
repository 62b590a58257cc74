import { formatCost } from './cost.js';

/** @typedef {Pick<import('./memory-loop.js').Judged, 'verdict' | 'recalled'> & { kind: string }} JudgedQuestion */

/** @param {readonly JudgedQuestion[]} judged */
export function summarizeByKind(judged) {
  const kinds = Object.entries(Object.groupBy(judged, ({ kind }) => kind)).map(([kind, questions]) => summarize(kind, questions ?? []));
  return [...kinds, summarize('all', judged)];
}

/** @param {string} kind @param {readonly JudgedQuestion[]} questions */
function summarize(kind, questions) {
  /** @param {JudgedQuestion['verdict']} verdict */
  const count = (verdict) => questions.filter((each) => each.verdict === verdict).length;
  const withoutMemory = questions.filter(({ recalled }) => recalled === 0).length;
  return {
    kind,
    questions: questions.length,
    correct: count('correct'),
    wrong: count('wrong'),
    unclear: count('unclear'),
    without_memory: withoutMemory,
  };
}

/** @param {readonly JudgedQuestion[]} judged @param {number} spent what this run cost in dollars */
export function formatMemoryReport(judged, spent) {
  const rows = summarizeByKind(judged).map(
    ({ kind, questions, correct, wrong, unclear, without_memory: without }) =>
      `| ${kind} | ${questions} | ${correct} | ${wrong} | ${unclear} | ${without} | ${questions === 0 ? '' : `${((100 * correct) / questions).toFixed(1)} %`} |`,
  );
  return [
    '',
    '| Kind | Questions | Correct | Wrong | Without a clear verdict | Nothing recalled | Share correct |',
    '| --- | --- | --- | --- | --- | --- | --- |',
    ...rows,
    '',
    `Cost of this run: ${formatCost(spent)}`,
  ].join('\n');
}
