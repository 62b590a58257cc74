/** Estimates the cost of an evaluation, and asks the user to confirm it before any calls are made. */
import { createInterface } from 'node:readline/promises';
import { parseArgs } from 'node:util';

/**
 * This is about right for English. In other languages, the same number of characters can be up to four times as many
 * tokens.
 */
const charactersPerToken = 4;

/**
 * @typedef {{ model: string, calls: number, inputCharacters: number, outputTokens: number }} PlannedCalls the planned
 * calls of one model
 */
/**
 * @typedef {{ calls: number, inputTokens: number, outputTokens: number, cost: number | null }} Estimate `cost` is in
 * dollars, or null if a price is unknown
 */

/**
 * @param {readonly PlannedCalls[]} planned
 * @param {(model: string) => import('../../src/core/pricing.ts').TokenPrice | null} priceOf
 * @returns {Estimate}
 */
export function estimateCost(planned, priceOf) {
  /** @type {Estimate} */
  const sum = { calls: 0, inputTokens: 0, outputTokens: 0, cost: 0 };
  for (const { model, calls, inputCharacters, outputTokens } of planned) {
    const inputTokens = Math.ceil(inputCharacters / charactersPerToken);
    const price = calls === 0 ? { inputNanos: 0n, outputNanos: 0n } : priceOf(model);
    const nanos = price && (inputTokens * Number(price.inputNanos) + outputTokens * Number(price.outputNanos)) / 1e6;
    sum.calls += calls;
    sum.inputTokens += inputTokens;
    sum.outputTokens += outputTokens;
    sum.cost = nanos === null || sum.cost === null ? null : sum.cost + nanos / 1e9;
  }
  return sum;
}

/** @param {number | null} dollars */
export function formatCost(dollars) {
  return dollars === null ? 'unknown: a model has no price' : `$${dollars.toFixed(dollars < 1 ? 4 : 2)}`;
}

/**
 * Prints the estimate and asks whether to continue. Without a terminal, the user has to pass `--yes`.
 * @param {Estimate} estimate
 * @param {boolean} isAgreed
 */
export async function confirmCost({ calls, inputTokens, outputTokens, cost }, isAgreed) {
  if (calls === 0) return true;
  console.log(`${calls} calls, about ${inputTokens} input and ${outputTokens} output tokens; estimated cost: ${formatCost(cost)}`);
  if (isAgreed) return true;
  if (!process.stdin.isTTY) {
    console.error('no calls were made; pass --yes to accept the cost');
    return false;
  }
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  try {
    return /^y(es)?$/i.test((await terminal.question('Continue? [y/N] ')).trim());
  } finally {
    terminal.close();
  }
}

/**
 * Parses command-line options. Prints the usage and exits with status 2 if an option is invalid.
 * @template {import('node:util').ParseArgsConfig['options'] & {}} Options
 * @param {Options} options
 * @param {string} usage
 */
export function readOptions(options, usage) {
  try {
    return parseArgs({ options, allowPositionals: false }).values;
  } catch (error) {
    console.error(`${/** @type {Error} */ (error).message}\n\n${usage}`);
    return process.exit(2);
  }
}
