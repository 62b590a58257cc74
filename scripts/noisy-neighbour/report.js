/** Compares the other project's calls with and without its neighbour, and formats the results. */
import { centile } from '../bench/report.js';
import { kinds } from './kinds.js';

/**
 * @typedef {object} Row
 * @property {string} kind
 * @property {number} perSecond rate at which the other project sends calls
 * @property {number} usualP50 in milliseconds, without the neighbour, over all measurements with the same project
 * @property {number} p50 in milliseconds, with the neighbour
 * @property {number} usualP99
 * @property {number} p99
 * @property {number} usualNewP90 the same for calls that open a connection
 * @property {number} newP90
 * @property {number} lateP99 how many milliseconds the program that times the calls was late itself, because other programs used its core
 * @property {number} calls
 * @property {number} failed number of the other project's calls that failed while the neighbour was active
 * @property {string | null} failure
 * @property {Record<string, number>} responses number of responses that the neighbour received, by status
 * @property {number} receivedBytes number of bytes that the neighbour received, including incomplete responses
 * @property {boolean} isOk
 */

/**
 * One round: the calls of the other project without the neighbour (`usual`) and together with it (`disturbed`).
 * @typedef {object} Round
 * @property {string} kind
 * @property {number} perSecond
 * @property {import('./other-project.js').Result} usual
 * @property {import('./other-project.js').Result} disturbed
 * @property {Row['responses']} responses
 * @property {number} receivedBytes
 */

/**
 * Compares a project's calls next to the neighbour with its undisturbed calls of the whole run. Those of the same
 * rounds aren't enough, because their p99 depends on whether V8 happened to collect garbage in the meantime.
 * @param {string} kind
 * @param {readonly Round[]} all
 * @returns {Row}
 */
export function toRow(kind, all) {
  const usual = latencies(all.filter((round) => kinds[round.kind]?.other === kinds[kind]?.other).map((round) => round.usual));
  const own = all.filter((round) => round.kind === kind);
  const disturbed = own.map((round) => round.disturbed);
  const { p50, p99, newP90 } = latencies(disturbed);
  const failed = sum(disturbed.map((result) => result.failed));
  const statuses = [...new Set(own.flatMap(({ responses }) => Object.keys(responses)))];
  return {
    kind,
    perSecond: sum(own.map(({ perSecond }) => perSecond)) / own.length,
    ...{ usualP50: usual.p50, p50, usualP99: usual.p99, p99, usualNewP90: usual.newP90, newP90 },
    lateP99: Math.max(...disturbed.map(({ lateP99 }) => lateP99)),
    calls: sum(disturbed.map(({ durations }) => durations.length)),
    failed,
    failure: disturbed.find(({ failure }) => failure !== null)?.failure ?? null,
    responses: Object.fromEntries(statuses.map((status) => [status, sum(own.map(({ responses }) => responses[status] ?? 0))])),
    receivedBytes: sum(own.map(({ receivedBytes }) => receivedBytes)),
    isOk: failed === 0 && isTolerable(usual.p50, p50) && isTolerable(usual.p99, p99),
  };
}

/** @param {readonly number[]} numbers */
function sum(numbers) {
  return numbers.reduce((total, number) => total + number, 0);
}

/** @param {readonly import('./other-project.js').Result[]} results */
function latencies(results) {
  const durations = Float64Array.from(results.flatMap((result) => [...result.durations])).sort();
  const newDurations = Float64Array.from(results.flatMap((result) => [...result.newDurations])).sort();
  return { p50: centile(durations, 0.5), p99: centile(durations, 0.99), newP90: centile(newDurations, 0.9) };
}

/**
 * Returns true if the latency is at most twice the usual one, or at most 50 ms more than usual.
 * @param {number} usualMs
 * @param {number} ms
 */
export function isTolerable(usualMs, ms) {
  return ms <= Math.max(2 * usualMs, usualMs + 50);
}

/** @param {Row} row */
export function describe({ usualP50, p50, usualP99, p99, usualNewP90, newP90, lateP99, failed, failure, responses, receivedBytes, isOk }) {
  const answers = Object.entries(responses).map(([status, count]) => `${count} x ${status}`);
  const times = `p50 ${usualP50.toFixed(1)} -> ${p50.toFixed(1)} ms, p99 ${usualP99.toFixed(1)} -> ${p99.toFixed(1)} ms, on new connections p90 ${usualNewP90.toFixed(1)} -> ${newP90.toFixed(1)} ms`;
  const failures = failed > 0 ? `, ${failed} failed (${failure})` : '';
  return `${times}${failures}: ${isOk ? 'ok' : 'too slow'} so far; the neighbour got ${answers.join(', ') || 'no responses'} (${(receivedBytes / 1e6).toFixed(1)} MB); timer late by ${lateP99.toFixed(1)} ms (p99)`;
}

/** @param {Row[]} rows */
export function formatTable(rows) {
  const heading = [
    'neighbour',
    'calls/s',
    'usual p50 ms',
    'p50 ms',
    'usual p99 ms',
    'p99 ms',
    'new usual p90 ms',
    'new p90 ms',
    'timer late ms',
    'failed',
    '',
  ];
  const lines = rows.map((row) => [
    kinds[row.kind]?.title ?? row.kind,
    row.perSecond.toFixed(0),
    ...[row.usualP50, row.p50, row.usualP99, row.p99, row.usualNewP90, row.newP90, row.lateP99].map((value) => value.toFixed(1)),
    String(row.failed),
    row.isOk ? 'ok' : 'too slow',
  ]);
  return `\n${[heading, heading.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |`).join('\n')}`;
}
