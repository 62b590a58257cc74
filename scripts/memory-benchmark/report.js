import { toScores } from './metrics.js';

/** @typedef {{ part: string, method: string, outcomes: import('./metrics.js').Outcome[] }} Measured */

/**
 * Formats two tables for BEAM and for each half of LoCoMo. The first one compares the methods, and the second one has a
 * row for each kind of question.
 * @param {Measured[]} measured
 */
export function formatReport(measured) {
  return [...Map.groupBy(measured, ({ part }) => part)].map(([part, methods]) => formatPart(part, methods)).join('\n');
}

/** @param {Measured[]} measured */
export function toJson(measured) {
  return measured.map(({ part, method, outcomes }) => ({ part, method, scores: toScores(outcomes) }));
}

/** @param {string} part @param {Measured[]} methods */
function formatPart(part, methods) {
  const scores = methods.map(({ method, outcomes }) => ({ method, kinds: toScores(outcomes) }));
  const all = scores.map(({ method, kinds: [first] }) => [method, ...(first?.hits ?? []).map(toShare), toShare(first?.mrr)]);
  const kinds = (scores[0]?.kinds ?? []).slice(1).map(({ kind, questions }, index) => [
    `${kind} (${questions})`,
    ...scores.map(({ kinds: of }) => {
      const [, five, ten] = of[index + 1]?.hits ?? [];
      return `${toShare(five)} / ${toShare(ten)}`;
    }),
  ]);
  const questions = scores[0]?.kinds[0]?.questions ?? 0;
  return `
${part}, ${questions.toLocaleString('en')} questions

${toTable(['Found by', 'hit@1', 'hit@5', 'hit@10', 'MRR'], all)}

${toTable(['hit@5 / hit@10', ...scores.map(({ method }) => method)], kinds)}
`;
}

/** @param {string[]} heading @param {string[][]} rows */
export function toTable(heading, rows) {
  return [heading, heading.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

/** @param {number | undefined} value */
function toShare(value) {
  return value === undefined ? '-' : value.toFixed(3);
}
