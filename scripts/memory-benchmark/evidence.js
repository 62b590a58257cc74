/**
 * Measures how much of the information that an answer needs is in the block that recall inserts, for blocks of
 * different sizes. Every token in a block costs something, whether or not it helps, so this tells us more about recall
 * than the rank of the first hit.
 */
import { wrapRecalled } from '../../src/dialects/prompt/recalled-block.ts';
import { toTable } from './report.js';

/** Sizes of blocks in tokens. As in the budget of a project, a token is four bytes of text. */
export const budgets = [500, 1_000, 2_000, 4_000];
const bytesPerToken = 4;
/** We ask for this many results, which is more than the largest block can hold. */
export const maxResults = 150;

/**
 * @typedef {object} Block
 * @property {string} text
 * @property {string[][]} sources the sources of each memory in the block
 */
/**
 * @typedef {object} Evidence
 * @property {number} sources the share of the question's sources that the block contains
 * @property {number | null} answer the share of the words of the answer, or null if the answer has no words of its own
 * @property {number} tokens
 */
/** @typedef {{ part: string, method: string, budget: number, evidence: Evidence }} MeasuredEvidence */

/**
 * @param {Block} block
 * @param {import('./dataset.js').Question} question
 * @returns {Evidence}
 */
export function measureEvidence({ text, sources }, question) {
  const found = new Set(sources.flat());
  const wanted = new Set(question.sources);
  const inQuestion = toWords(question.text);
  const inBlock = toWords(text);
  const words = [...toWords(question.answer)].filter((word) => !inQuestion.has(word) && (word.length >= 4 || /\d/.test(word)));
  return {
    sources: [...wanted].filter((source) => found.has(source)).length / wanted.size,
    answer: words.length === 0 ? null : words.filter((word) => inBlock.has(word)).length / words.length,
    tokens: Buffer.byteLength(text) / bytesPerToken,
  };
}

/**
 * Fills a block without any cleverness. We go through the memories in order, add each with its date, and skip those
 * that don't fit any more. The frame around them is the same as in recall.
 * @param {readonly import('./dataset.js').Memory[]} memories best first
 * @param {number} budget
 * @returns {Block}
 */
export function fillPlainBlock(memories, budget) {
  /** @type {string[]} */
  const lines = [];
  const sources = [];
  let left = budget * bytesPerToken - Buffer.byteLength(wrapRecalled('recall', []));
  for (const memory of memories) {
    const line = `- ${memory.text.replaceAll(/\s+/g, ' ')} (${memory.date.slice(0, 10)})`;
    const bytes = Buffer.byteLength(line) + 1;
    if (bytes > left) continue;
    left -= bytes;
    lines.push(line);
    sources.push(memory.sources);
  }
  return { text: wrapRecalled('recall', lines), sources };
}

/**
 * Calculates the averages for each part, method and budget. `tokens` is the actual size of the blocks, which can be
 * smaller than the budget.
 * @param {readonly MeasuredEvidence[]} measured
 */
export function summarizeEvidence(measured) {
  const groups = Map.groupBy(measured, ({ part, method, budget }) => JSON.stringify([part, method, budget]));
  return [...groups.values()].flatMap((group) => {
    const [first] = group;
    if (!first) return [];
    const { part, method, budget } = first;
    return {
      ...{ part, method, budget, questions: group.length },
      sources: mean(group.map(({ evidence }) => evidence.sources)),
      answer: mean(group.flatMap(({ evidence }) => evidence.answer ?? [])),
      tokens: Math.round(mean(group.map(({ evidence }) => evidence.tokens))),
    };
  });
}

/** @param {readonly MeasuredEvidence[]} measured */
export function formatEvidence(measured) {
  const byPart = Map.groupBy(summarizeEvidence(measured), ({ part }) => part);
  return [...byPart].map(([part, rows]) => `\n${part}\n\n${formatPart(rows)}\n`).join('');
}

/** @param {ReturnType<typeof summarizeEvidence>} rows of one part */
function formatPart(rows) {
  const cells = [...Map.groupBy(rows, ({ method }) => method)].map(([method, ofMethod]) => [
    method,
    ...budgets.map((budget) => {
      const row = ofMethod.find((each) => each.budget === budget);
      return row ? `${row.sources.toFixed(3)} / ${row.answer.toFixed(3)} (${row.tokens})` : '';
    }),
  ]);
  return toTable(['Evidence / words of the answer (tokens)', ...budgets.map((budget) => `${budget.toLocaleString('en')} tokens`)], cells);
}

/** @param {readonly number[]} values */
function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** @param {string} text */
function toWords(text) {
  return new Set(text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []);
}
