/** Runs the scenarios that were requested on the command line. The targets take turns, with one round each. */
import { writeFile } from 'node:fs/promises';
import { basename, resolve } from 'node:path';
import { readArguments } from '../arguments.js';
import { root } from '../launch.js';
import { BootstrapError } from '../npm.js';
import { withBench } from './environment.js';
import { measureOpenStreams } from './open-streams.js';
import { describeIntervals, formatSummary, formatTable, summarize, summarizeStarts } from './report.js';
import { parseOther, startRivals, suitsRivals } from './rivals.js';
import { agentScenarios, callsOf, scenarios } from './scenarios.js';
import { measureProcesses } from './two-processes.js';

/** These scenarios have their own code, so they aren't listed in scenarios.js. */
const otherScenarios = ['processes', 'open-streams'];

/** @typedef {ReturnType<typeof parseOptions>} Options */

/** @param {string[]} args the command-line arguments */
export async function runBenchmark(args) {
  const options = parseOptions(args);
  /** @type {Map<string, import('./report.js').Measurement[]>} */
  const startsOf = new Map();
  /** @type {import('./report.js').Row[]} */
  const processesRows = [];
  /** @type {import('./open-streams.js').OpenStreams[]} */
  const openStreams = [];
  try {
    await withBench(options, async (bench) => {
      const { names } = options;
      let targets = names.some((name) => name !== 'processes') ? await startTargets(bench, options) : [];
      const rivals = [...(options.rivals ? await startRivals(bench) : []), ...options.others];
      for (let start = 1; start <= options.starts; start += 1) {
        if (start > 1) targets = await restartTargets(bench, targets, options);
        for (const name of names) {
          const scenario = scenarios[name];
          if (!scenario) continue;
          const all = suitsRivals(scenario) ? [...targets, ...rivals] : targets;
          const starts = [...(startsOf.get(name) ?? []), await runScenario(bench, { name, scenario, targets: all, ...options })];
          startsOf.set(name, starts);
        }
      }
      for (const line of describeIntervals(summarizeAll(startsOf))) console.log(line);
      if (names.includes('open-streams')) openStreams.push(...(await measureOpenStreams(bench, { targets, streams: options.streams })));
      if (!names.includes('processes')) return;
      // This scenario starts its own gateways, so stop the ones that are running. They would compete for the cores.
      for (const { gateway } of targets) await gateway?.program.stop();
      processesRows.push(...(await measureProcesses(bench, { ...options, calls: options.calls ?? callsOf({}) })));
    });
  } finally {
    // Print the rows even after a failure, because measuring them took minutes.
    const rows = [...summarizeAll(startsOf), ...processesRows];
    if (rows.length > 0) console.log(formatSummary(rows, (name) => scenarios[name]?.title ?? name));
    if (options.json !== undefined) await writeFile(options.json, `${JSON.stringify([...rows, ...openStreams], null, 2)}\n`);
  }
}

/** @param {ReadonlyMap<string, import('./report.js').Measurement[]>} startsOf the measurements of each scenario */
function summarizeAll(startsOf) {
  return [...startsOf].flatMap(([name, starts]) => summarizeStarts(name, starts));
}

/**
 * Stops the targets and starts new ones, because two processes of the same commit can differ by 10 %.
 * @param {import('./environment.js').Bench} bench
 * @param {import('./environment.js').RunningTarget[]} targets
 * @param {Options} options
 */
async function restartTargets(bench, targets, options) {
  await Promise.all(targets.map(({ stop }) => stop?.()));
  return startTargets(bench, options);
}

/** @param {import('./environment.js').Bench} bench @param {Options} options */
async function startTargets(bench, { checkouts, traces, localEmbedder }) {
  /** @type {import('./environment.js').RunningTarget[]} */
  const targets = [await bench.startFloor()];
  for (const checkout of checkouts) {
    const isTaken = targets.some(({ label }) => label === basename(checkout));
    targets.push(await bench.startGateway(checkout, isTaken ? { label: checkout } : {}));
    const withEmbedder = { label: `${basename(checkout)} local embedder`, env: { GATEWAY_LOCAL_EMBEDDER: 'auto' } };
    if (localEmbedder) targets.push(await bench.startGateway(checkout, withEmbedder));
    if (traces !== undefined) targets.push(await bench.startGateway(checkout, { label: `${basename(checkout)} traced`, traces }));
  }
  return targets;
}

/**
 * Runs all rounds of a scenario, and prints their medians.
 * @param {import('./environment.js').Bench} bench
 * @param {object} options
 * @param {string} options.name
 * @param {import('./scenarios.js').Scenario} options.scenario
 * @param {import('./environment.js').RunningTarget[]} options.targets
 * @param {number} options.rounds
 * @param {number} options.warmUp in seconds
 * @param {number | null} options.calls
 * @returns {Promise<import('./report.js').Measurement>}
 */
async function runScenario(bench, { name, scenario, targets: all, rounds, warmUp, calls }) {
  const targets = scenario.direct ? [...all, bench.direct] : all;
  if (scenario.needs === 'memories') for (const { gateway } of targets) await gateway?.addMemories();
  const perRound = calls ?? callsOf(scenario);
  /** @type {Map<string, import('./measure.js').Round[]>} */
  const results = new Map(targets.map(({ label }) => [label, []]));
  // Every call of this scenario should be a cache hit, so fill the cache first.
  if (scenario.vendorCalls === 0) for (const target of targets) await bench.measure(target, { ...scenario, vendorCalls: 1 }, 1);
  for (const target of targets) await bench.warmUp(target, scenario, { calls: perRound, seconds: warmUp });
  /** @type {Map<string, number>} */
  const storedOf = new Map();
  const addStored = async (/** @type {1 | -1} */ sign) => {
    for (const { label, database } of targets) {
      if (database) storedOf.set(label, (storedOf.get(label) ?? 0) + sign * (await database.storedBytes()));
    }
  };
  await addStored(-1);
  for (let done = 0; done < rounds; done += 1) {
    // The machine may get slower over time. Switch the order in every other round, so that this doesn't favor one of
    // the targets.
    for (const target of done % 2 === 0 ? targets : targets.toReversed())
      results.get(target.label)?.push(await bench.measure(target, scenario, perRound));
  }
  await addStored(1);
  const extra = [...(scenario.streams ? ['firstByteP50', 'firstByteP99'] : []), ...(all.length > 2 ? ['toFirst'] : [])];
  console.log(formatTable(summarize(name, results, storedOf), scenario.title, extra));
  return { roundsOf: results, storedOf };
}

/** @param {string[]} args */
function parseOptions(args) {
  const { values, positionals } = readArguments({
    args,
    allowPositionals: true,
    options: {
      checkout: { type: 'string', multiple: true, default: [root] },
      rounds: { type: 'string', default: '5' },
      starts: { type: 'string', default: '1' },
      // The default is long, because V8 keeps compiling the gateway's functions for about 200,000 calls (according to
      // --trace-opt).
      'warm-up': { type: 'string', default: '60' },
      calls: { type: 'string' },
      streams: { type: 'string', default: '10000' },
      traces: { type: 'string' },
      'local-embedder': { type: 'boolean', default: false },
      rivals: { type: 'boolean', default: false },
      other: { type: 'string', multiple: true, default: [] },
      'vendor-port': { type: 'string', default: '0' },
      json: { type: 'string' },
    },
  });
  const known = [...Object.keys(scenarios), ...otherScenarios];
  const names = positionals.length > 0 ? positionals.flatMap((name) => (name === 'agents' ? agentScenarios : [name])) : known;
  const unknown = names.filter((name) => !known.includes(name));
  if (unknown.length > 0) throw new BootstrapError(`no such scenario: ${unknown.join(', ')}; there are ${known.join(', ')}`);
  return {
    names,
    checkouts: values.checkout.map((path) => resolve(path)),
    rounds: wholeNumber('--rounds', values.rounds, 1),
    starts: wholeNumber('--starts', values.starts, 1),
    warmUp: wholeNumber('--warm-up', values['warm-up'], 0),
    calls: values.calls === undefined ? null : wholeNumber('--calls', values.calls, 1),
    streams: wholeNumber('--streams', values.streams, 1),
    traces: values.traces,
    localEmbedder: values['local-embedder'],
    rivals: values.rivals,
    others: values.other.map(parseOther),
    vendorPort: wholeNumber('--vendor-port', values['vendor-port'], 0),
    json: values.json,
  };
}

/** @param {string} option @param {string} text @param {number} least */
export function wholeNumber(option, text, least) {
  const value = Number(text);
  if (Number.isInteger(value) && value >= least) return value;
  throw new BootstrapError(`${option}: must be a whole number of at least ${least}`);
}
