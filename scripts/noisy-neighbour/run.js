/** Runs the requested kinds of abuse one after another and reports how the other project's calls fared. */
import { execFileSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { readArguments } from '../arguments.js';
import { withBench } from '../bench/environment.js';
import { centile } from '../bench/report.js';
import { wholeNumber } from '../bench/run.js';
import { requestOf } from '../bench/scenarios.js';
import { root } from '../launch.js';
import { BootstrapError } from '../npm.js';
import { expensiveRules, kinds, ordinaryRules } from './kinds.js';

/**
 * @typedef {object} Row
 * @property {string} kind
 * @property {number} perSecond rate at which the other project sends calls
 * @property {number} usualP50 in milliseconds, without the neighbour
 * @property {number} p50 in milliseconds, with the neighbour
 * @property {number} usualP99
 * @property {number} p99
 * @property {number} lateP99 how many milliseconds the program that times the calls was late itself, because other programs used its core
 * @property {number} calls
 * @property {number} failed number of the other project's calls that failed while the neighbour was active
 * @property {string | null} failure
 * @property {Record<string, number>} responses number of responses that the neighbour received, by status
 * @property {boolean} isOk
 */

/** @typedef {ReturnType<typeof parseOptions>} Options */

/** How many connections and how many calls per round we use to measure the capacity. */
const [capacityConnections, capacityCalls] = [16, 1_000];
/** How long we wait for a neighbour's leftover work to finish before we start the next kind. */
const settleLimitMs = 60_000;
const settledMs = 50;
/** The number of files that the gateway has open besides the neighbour's streams. Each stream takes two. */
const otherFiles = 1_000;

/** @param {string[]} args the command-line arguments */
export async function runNoisyNeighbour(args) {
  const options = parseOptions(args);
  /** @type {Row[]} */
  const rows = [];
  try {
    await withBench({}, async (bench) => {
      const session = await startSession(bench, options);
      for (const name of options.names) {
        const row = await session.measure(name);
        rows.push(row);
        console.log(`${row.kind}: ${describe(row)}`);
      }
    });
  } finally {
    // Print the rows even after a failure, because they took minutes to measure.
    if (rows.length > 0) console.log(formatTable(rows));
    if (options.json !== undefined) await writeFile(options.json, `${JSON.stringify(rows, null, 2)}\n`);
  }
}

/** @param {import('../bench/environment.js').Bench} bench @param {Options} options */
async function startSession(bench, { checkout, seconds, warmUp, load, streams }) {
  const target = await bench.startGateway(checkout, { label: 'gateway' });
  const { gateway, port } = target;
  await gateway.admin('PUT', '/provision/teams/ruled', { cache: { enabled: false } });
  await gateway.admin('PUT', '/provision/teams/ruled/memory', { enabled: false });
  await gateway.admin('PUT', '/provision/teams/ruled/rules', { rules: ordinaryRules });
  const ruledKey = await gateway.createKeyOf('ruled', {});
  // The neighbour is the project that has memory enabled.
  await gateway.addMemories();
  const context = {
    port,
    key: gateway.keys.memory,
    cappedKey: await gateway.createKeyOf('memory', { calls: 0 }),
    adminToken: gateway.adminToken,
  };
  // Loads the console before we measure, because each process loads it on first use.
  await fetch(`http://127.0.0.1:${port}/console/sign-in`);
  const [other, neighbour] = ['other-project', 'neighbour'].map((name) => bench.processes.fork(`../noisy-neighbour/${name}.js`));
  if (!other || !neighbour) throw new Error('both programs were started');

  /** @param {'ruled' | undefined} project */
  const requestFor = (project) => requestOf({ title: '', connections: 0 }, project === 'ruled' ? ruledKey : gateway.keys.plain);
  /** @param {'ruled' | undefined} project @param {number} perSecond @param {number} length in seconds */
  const call = (project, perSecond, length) =>
    /** @type {Promise<import('./other-project.js').Result>} */ (
      other.ask({ ...requestFor(project), port, firstNumber: bench.nextNumber(), perSecond, seconds: length })
    );

  /** Measures calls per second. Each connection sends one call at a time. @param {'ruled' | undefined} project */
  const measureCapacity = async (project) => {
    const endsAt = performance.now() + warmUp * 1_000;
    const work = { ...requestFor(project), port, connections: capacityConnections, calls: capacityCalls };
    /** @type {number[]} */
    const measured = [];
    do {
      const { calls, seconds: taken, failure } = await bench.callers.ask({ ...work, firstNumber: bench.nextNumber() });
      if (failure !== null) throw new Error(failure);
      measured.push(calls / taken);
    } while (performance.now() < endsAt);
    // Discard the first half as the warm-up.
    const warm = Float64Array.from(measured.slice(Math.floor(measured.length / 2))).sort();
    return centile(warm, 0.5);
  };

  /** @type {Map<'ruled' | undefined, number>} */
  const rates = new Map();
  /** @param {'ruled' | undefined} project */
  const rateFor = async (project) => {
    const known = rates.get(project);
    if (known !== undefined) return known;
    const capacity = await measureCapacity(project);
    rates.set(project, capacity * load);
    console.log(`capacity: ${capacity.toFixed(0)} calls/s${project ? ' of a project with a content rule' : ''}`);
    return capacity * load;
  };

  /** Waits until the other project's calls are fast again. @param {'ruled' | undefined} project */
  const settle = async (project) => {
    for (const limitAt = performance.now() + settleLimitMs; performance.now() < limitAt; await sleep(500)) {
      const { durations, failed } = await call(project, 50, 0.2);
      if (failed === 0 && centile(durations, 1) < settledMs) return;
    }
    console.log(`not settled after ${settleLimitMs / 1_000} s`);
  };

  return {
    /** @param {string} name @returns {Promise<Row>} */
    async measure(name) {
      const kind = kinds[name];
      if (!kind) throw new Error(`there is no kind ${name}`);
      const rate = await rateFor(kind.other);
      // Set the expensive rules only for this kind, because they would distort the results of all the others.
      const setRules = (/** @type {object[]} */ rules) => gateway.admin('PUT', '/provision/teams/memory/rules', { rules });
      if (kind.other === 'ruled') await setRules(expensiveRules);
      const usual = await call(kind.other, rate, seconds);
      const connections = kind.connections > 16 ? Math.min(kind.connections, streams) : kind.connections;
      await neighbour.ask({ ...context, kind: name, connections });
      const disturbed = await call(kind.other, rate, seconds);
      const { responses } = await neighbour.ask({ stop: true });
      await settle(kind.other);
      if (kind.other === 'ruled') await setRules([]);
      return toRow(name, rate, usual, disturbed, responses);
    },
  };

  /**
   * @param {string} kind
   * @param {number} perSecond
   * @param {import('./other-project.js').Result} usual
   * @param {import('./other-project.js').Result} disturbed
   * @param {Record<string, number>} responses
   * @returns {Row}
   */
  function toRow(kind, perSecond, usual, disturbed, responses) {
    const [usualP50, p50] = [centile(usual.durations, 0.5), centile(disturbed.durations, 0.5)];
    const [usualP99, p99] = [centile(usual.durations, 0.99), centile(disturbed.durations, 0.99)];
    const { failed, failure, lateP99 } = disturbed;
    const isOk = failed === 0 && isTolerable(usualP50, p50) && isTolerable(usualP99, p99);
    const calls = disturbed.durations.length;
    return { kind, perSecond, usualP50, p50, usualP99, p99, lateP99, calls, failed, failure, responses, isOk };
  }
}

/** Allows twice the usual time or 50 ms more, whichever is larger. @param {number} usualMs @param {number} ms */
export function isTolerable(usualMs, ms) {
  return ms <= Math.max(2 * usualMs, usualMs + 50);
}

/** @param {Row} row */
function describe({ usualP50, p50, usualP99, p99, lateP99, failed, failure, responses, isOk }) {
  const answers = Object.entries(responses).map(([status, count]) => `${count} x ${status}`);
  const times = `p50 ${usualP50.toFixed(1)} -> ${p50.toFixed(1)} ms, p99 ${usualP99.toFixed(1)} -> ${p99.toFixed(1)} ms`;
  const failures = failed > 0 ? `, ${failed} failed (${failure})` : '';
  return `${times}${failures}: ${isOk ? 'ok' : 'TOO SLOW'}; the neighbour got ${answers.join(', ') || 'no responses'}; timer late by ${lateP99.toFixed(1)} ms (p99)`;
}

/** Formats the rows as a Markdown table. @param {Row[]} rows */
function formatTable(rows) {
  const heading = ['neighbour', 'calls/s', 'usual p50 ms', 'p50 ms', 'usual p99 ms', 'p99 ms', 'timer late ms', 'failed', ''];
  const lines = rows.map((row) => [
    kinds[row.kind]?.title ?? row.kind,
    row.perSecond.toFixed(0),
    ...[row.usualP50, row.p50, row.usualP99, row.p99, row.lateP99].map((value) => value.toFixed(1)),
    String(row.failed),
    row.isOk ? 'ok' : 'too slow',
  ]);
  return `\n${[heading, heading.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |`).join('\n')}`;
}

/** @param {string[]} args */
function parseOptions(args) {
  const { values, positionals } = readArguments({
    args,
    allowPositionals: true,
    options: {
      seconds: { type: 'string', default: '8' },
      'warm-up': { type: 'string', default: '20' },
      load: { type: 'string', default: '0.7' },
      streams: { type: 'string', default: '2000' },
      checkout: { type: 'string', default: root },
      json: { type: 'string' },
    },
  });
  const known = Object.keys(kinds);
  const names = positionals.length > 0 ? positionals : known;
  const unknown = names.filter((name) => !known.includes(name));
  if (unknown.length > 0) throw new BootstrapError(`no such kind: ${unknown.join(', ')}; there are ${known.join(', ')}`);
  const load = Number(values.load);
  if (!(load > 0 && load <= 1)) throw new BootstrapError('--load: must be a number above 0 and at most 1');
  const files = Number(execFileSync('/bin/sh', ['-c', 'ulimit -Hn'], { encoding: 'utf8' })) || Number.POSITIVE_INFINITY;
  return {
    names,
    load,
    seconds: wholeNumber('--seconds', values.seconds, 1),
    warmUp: wholeNumber('--warm-up', values['warm-up'], 0),
    streams: Math.min(wholeNumber('--streams', values.streams, 1), Math.floor((files - otherFiles) / 2)),
    checkout: resolve(values.checkout),
    json: values.json,
  };
}
