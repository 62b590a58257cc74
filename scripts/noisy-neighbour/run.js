/**
 * Makes one project abuse the gateway in each of the requested ways, one after the other, and reports how that affects
 * the calls of another project.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { constants, setPriority } from 'node:os';
import { resolve } from 'node:path';
import { readArguments } from '../arguments.js';
import { withBench } from '../bench/environment.js';
import { untilIdle } from '../bench/measure.js';
import { ownCpuMs, threadMs, waitedMs } from '../bench/proc.js';
import { centile } from '../bench/report.js';
import { wholeNumber } from '../bench/run.js';
import { requestOf } from '../bench/scenarios.js';
import { root } from '../launch.js';
import { BootstrapError } from '../npm.js';
import { expensiveRules, kinds, ordinaryRules } from './kinds.js';
import { describe, formatTable, toRow } from './report.js';
import { openTrace } from './trace.js';

/** @typedef {ReturnType<typeof parseOptions>} Options */

/**
 * The number of connections with which we measure the capacity, the number of calls per round, and for how many seconds
 * we measure if the gateway is already warm.
 */
const [capacityConnections, capacityCalls, capacitySeconds] = [16, 1_000, 5];
/**
 * The gateway counts as idle if it uses less CPU time than this in 200 ms. The second limit is for traced runs. It's
 * higher because tracing uses CPU time too.
 */
const [idleMs, tracedIdleMs] = [8, 60];
/** How many open files the gateway needs, not counting the neighbour's streams, each of which takes two. */
const otherFiles = 1_000;

/** @param {string[]} args the command-line arguments */
export async function runNoisyNeighbour(args) {
  const options = parseOptions(args);
  /** @type {import('./report.js').Round[]} */
  const rounds = [];
  try {
    await withBench({}, async (bench) => {
      const session = await startSession(bench, options);
      for (const name of options.names) {
        for (let round = 1; round <= options.rounds; round += 1) rounds.push(await session.measure(name, round));
        console.log(`${name}: ${describe(toRow(name, rounds))}`);
      }
    });
  } finally {
    // Even if something fails, print the rows that we have. It took minutes to measure them.
    const rows = [...new Set(rounds.map(({ kind }) => kind))].map((kind) => toRow(kind, rounds));
    if (rows.length > 0) console.log(formatTable(rows));
    if (options.json !== undefined) await writeFile(options.json, `${JSON.stringify(rows, null, 2)}\n`);
  }
}

/** @param {import('../bench/environment.js').Bench} bench @param {Options} options */
async function startSession(bench, { checkout, seconds, rounds, warmUp, load, rate, streams, memories, traces, isProfiled }) {
  const target = await bench.startGateway(checkout, { label: 'gateway', flags: traces === null ? [] : ['--inspect=127.0.0.1:0'] });
  const { gateway, port } = target;
  await gateway.admin('PUT', '/provision/teams/ruled', { cache: { enabled: false } });
  await gateway.admin('PUT', '/provision/teams/ruled/memory', { enabled: false });
  await gateway.admin('PUT', '/provision/teams/ruled/rules', { rules: ordinaryRules });
  const ruledKey = await gateway.createKeyOf('ruled', {});
  // The noisy neighbour uses the project that has memory turned on, so add some memories to it.
  await gateway.addMemories(memories);
  const context = {
    port,
    key: gateway.keys.memory,
    cappedKey: await gateway.createKeyOf('memory', { calls: 0 }),
    adminToken: gateway.adminToken,
  };
  // A process loads the console when it's first used. Make sure that this has happened before we measure.
  await fetch(`http://127.0.0.1:${port}/console/sign-in`);
  const [other, neighbour] = ['other-project', 'neighbour'].map((name) => bench.processes.fork(`../noisy-neighbour/${name}.js`));
  if (!other || !neighbour) throw new Error('a program of the benchmark was not started');
  const { PRIORITY_HIGHEST, PRIORITY_BELOW_NORMAL } = constants.priority;
  for (const { pid } of [other, bench.vendor]) changePriority(pid, PRIORITY_HIGHEST);
  changePriority(neighbour.pid, PRIORITY_BELOW_NORMAL);

  /** @param {'ruled' | undefined} project */
  const requestFor = (project) => requestOf({ title: '', connections: 0 }, project === 'ruled' ? ruledKey : gateway.keys.plain);
  /** @param {'ruled' | undefined} project @param {number} perSecond @param {number} length in seconds */
  const call = (project, perSecond, length) =>
    /** @type {Promise<import('./other-project.js').Result>} */ (
      other.ask({ ...requestFor(project), port, firstNumber: bench.nextNumber(), perSecond, seconds: length })
    );

  /**
   * Measures how many calls per second the gateway can handle. Each connection sends its next call as soon as the
   * previous one has been answered.
   * @param {'ruled' | undefined} project
   * @param {number} length in seconds
   */
  const measureCapacity = async (project, length) => {
    const endsAt = performance.now() + length * 1_000;
    const work = { ...requestFor(project), port, connections: capacityConnections, calls: capacityCalls };
    /** @type {number[]} */
    const measured = [];
    do {
      const { calls, seconds: taken, failure } = await bench.callers.ask({ ...work, firstNumber: bench.nextNumber() });
      if (failure !== null) throw new Error(failure);
      measured.push(calls / taken);
    } while (performance.now() < endsAt);
    // Only use the second half, because the gateway may still have been warming up in the first one.
    const warm = Float64Array.from(measured.slice(Math.floor(measured.length / 2))).sort();
    return centile(warm, 0.5);
  };

  /** @type {Set<'ruled' | undefined>} */
  const warmProjects = new Set();
  /**
   * Chooses the rate of the other project's calls. A virtual machine can get a third faster or slower within minutes,
   * so we measure the capacity again in each round.
   * @param {'ruled' | undefined} project
   */
  const chooseRate = async (project) => {
    if (rate !== null && (warmUp === 0 || warmProjects.has(project))) return rate;
    const capacity = await measureCapacity(project, warmProjects.has(project) ? Math.min(capacitySeconds, warmUp) : warmUp);
    warmProjects.add(project);
    console.log(`capacity: ${capacity.toFixed(0)} calls/s${project ? ' of a project with a content rule' : ''}`);
    await settle();
    return rate ?? capacity * load;
  };

  /**
   * Waits until the gateway is idle. It may still have to store calls or finish other work from the last measurement.
   */
  const settle = () =>
    untilIdle(target, traces === null ? idleMs : tracedIdleMs).catch((/** @type {Error} */ { message }) => console.log(message));

  const startTrace =
    traces === null
      ? null
      : await openTrace({
          gateway,
          pid: target.pid,
          folder: traces,
          isProfiled,
          others: () => Object.fromEntries(readCpu().others.map(({ name, ms }) => [name, ms])),
        });
  const readCpu = () => {
    const { pid, database } = target;
    return {
      at: performance.now(),
      threads: threadMs(pid),
      waited: waitedMs(pid),
      others: [
        { name: 'PostgreSQL', ms: database?.cpuMs() ?? Number.NaN },
        { name: 'vendor', ms: ownCpuMs(bench.vendor.pid) },
        { name: 'other project', ms: ownCpuMs(other.pid) },
        { name: 'neighbour', ms: ownCpuMs(neighbour.pid) },
      ],
    };
  };

  return {
    /** @param {string} name @param {number} round @returns {Promise<import('./report.js').Round>} */
    async measure(name, round) {
      const kind = kinds[name];
      if (!kind) throw new Error(`unknown kind: ${name}`);
      const perSecond = await chooseRate(kind.other);
      // These rules would also slow down the other measurements, so we only set them during this one.
      const setRules = (/** @type {object[]} */ rules) => gateway.admin('PUT', '/provision/teams/memory/rules', { rules });
      if (kind.other === 'ruled') await setRules(expensiveRules);
      const usual = await call(kind.other, perSecond, seconds / rounds);
      const connections = kind.connections > 16 ? Math.min(kind.connections, streams) : kind.connections;
      const stopTrace = await startTrace?.(rounds === 1 ? name : `${name}-${round}`);
      const cpuBefore = readCpu();
      await neighbour.ask({ ...context, kind: name, connections });
      const disturbed = await call(kind.other, perSecond, seconds / rounds);
      console.log(`${name}: ${describeCpu(cpuBefore, readCpu())}`);
      await stopTrace?.(disturbed);
      const { responses, receivedBytes } = await neighbour.ask({ stop: true });
      await settle();
      if (kind.other === 'ruled') await setRules([]);
      return { kind: name, perSecond, usual, disturbed, responses, receivedBytes };
    },
  };
}

/**
 * Changes the priority of a program that shares its core with PostgreSQL. This is best effort, because only root can
 * raise a priority.
 * @param {number} pid
 * @param {number} priority
 */
function changePriority(pid, priority) {
  try {
    setPriority(pid, priority);
    // Linux may first share the core between sessions (`autogroup` in sched(7)), and then our priority only matters
    // within the session. The session has a priority of its own, so set that as well.
    const session = `/proc/${pid}/autogroup`;
    if (existsSync(session)) writeFileSync(session, String(priority));
  } catch {
    console.log('not started by root, so PostgreSQL can delay the programs that we measure with');
  }
}

/** @typedef {{ at: number, threads: Map<string, number>, waited: number, others: { name: string, ms: number }[] }} Cpu times in milliseconds */

/** Describes how busy the gateway's core was, and what used the other cores. @param {Cpu} before @param {Cpu} after */
function describeCpu(before, after) {
  const percent = (/** @type {number} */ ms) => Math.round((ms * 100) / (after.at - before.at));
  const threads = [...after.threads].map(([name, ms]) => ({ name, used: percent(ms - (before.threads.get(name) ?? 0)) }));
  const busy = threads.filter(({ used }) => used > 0).map(({ name, used }) => `${name} ${used} %`);
  const others = after.others.map(({ name, ms }, index) => `${name} ${percent(ms - (before.others[index]?.ms ?? 0))} %`);
  return `CPU of the gateway: ${busy.join(', ')}; main waited for the core ${percent(after.waited - before.waited)} %; ${others.join(', ')}`;
}

/** @param {string[]} args */
function parseOptions(args) {
  const { values, positionals } = readArguments({
    args,
    allowPositionals: true,
    options: {
      seconds: { type: 'string', default: '30' },
      rounds: { type: 'string', default: '3' },
      'warm-up': { type: 'string', default: '20' },
      load: { type: 'string', default: '0.7' },
      rate: { type: 'string' },
      streams: { type: 'string', default: '2000' },
      memories: { type: 'string', default: '1000' },
      checkout: { type: 'string', default: root },
      json: { type: 'string' },
      trace: { type: 'string' },
      profile: { type: 'string' },
    },
  });
  const known = Object.keys(kinds);
  const names = positionals.length > 0 ? positionals : known;
  const unknown = names.filter((name) => !known.includes(name));
  if (unknown.length > 0) throw new BootstrapError(`no such kind: ${unknown.join(', ')}; there are ${known.join(', ')}`);
  const folder = values.profile ?? values.trace;
  const seconds = Number(values.seconds);
  if (!(seconds > 0)) throw new BootstrapError('--seconds: must be a number above 0');
  const load = Number(values.load);
  if (!(load > 0 && load <= 1)) throw new BootstrapError('--load: must be a number above 0 and at most 1');
  const files = Number(execFileSync('/bin/sh', ['-c', 'ulimit -Hn'], { encoding: 'utf8' })) || Number.POSITIVE_INFINITY;
  return {
    names,
    load,
    rate: values.rate === undefined ? null : wholeNumber('--rate', values.rate, 1),
    seconds,
    rounds: wholeNumber('--rounds', values.rounds, 1),
    warmUp: wholeNumber('--warm-up', values['warm-up'], 0),
    streams: Math.min(wholeNumber('--streams', values.streams, 1), Math.floor((files - otherFiles) / 2)),
    memories: wholeNumber('--memories', values.memories, 1),
    checkout: resolve(values.checkout),
    json: values.json,
    traces: folder === undefined ? null : resolve(folder),
    isProfiled: values.profile !== undefined,
  };
}
