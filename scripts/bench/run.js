/** Runs the scenarios of the command line: the rounds of all targets alternate. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { cpus, tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { root } from '../launch.js';
import { startGateway } from './gateway.js';
import { measureRound } from './measure.js';
import { openPostgres } from './postgres.js';
import { createProcesses, pinCores } from './processes.js';
import { formatTable, summarize } from './report.js';
import { scenarios } from './scenarios.js';

/** @typedef {import('./measure.js').Target & { gateway?: import('./gateway.js').Gateway }} RunningTarget */

const defaultCalls = 3_000;

/** @param {string[]} args of the command line */
export async function runBenchmark(args) {
  const { names, checkouts, rounds, warmUp, calls, json } = parseOptions(args);
  const folder = await mkdtemp(join(tmpdir(), 'gateway-bench-'));
  const { isPinned, measured } = pinCores(1);
  const processes = createProcesses(folder);
  const postgres = await openPostgres();
  /** @type {import('./report.js').Row[]} */
  const rows = [];
  try {
    const vendor = processes.fork('vendor.js');
    const { port: vendorPort } = await vendor.ask();
    const callers = processes.fork('callers.js');
    const targets = await startTargets({ checkouts, processes, postgres, measured, vendorPort, folder });
    console.log(`${cpus()[0]?.model}, ${cpus().length} processors, Node ${process.versions.node}, ${postgres.version}`);
    if (!isPinned) console.log('not pinned: one core or no taskset, so the programs share cores');
    let number = 0;
    const nextNumber = () => {
      number += 1_000_000;
      return number;
    };
    for (const name of names) {
      const scenario = scenarios[name];
      if (!scenario) continue;
      if (scenario.needs === 'memories') for (const { gateway } of targets) await gateway?.addMemories();
      const perRound = calls ?? scenario.calls ?? defaultCalls;
      /** @param {RunningTarget} target @param {number} count */
      const measure = (target, count) => measureRound({ target, scenario, calls: count, callers, vendor, nextNumber });
      /** @type {Map<string, import('./measure.js').Round[]>} */
      const results = new Map(targets.map(({ label }) => [label, []]));
      if (warmUp > 0) for (const target of targets) await measure(target, perRound * warmUp);
      for (let done = 0; done < rounds; done += 1) {
        // Every other round in the opposite order, so that a machine that becomes slower favours none.
        for (const target of done % 2 === 0 ? targets : targets.toReversed())
          results.get(target.label)?.push(await measure(target, perRound));
      }
      const found = summarize(name, results);
      rows.push(...found);
      console.log(formatTable(found, scenario.title, scenario.streams ?? false));
    }
    if (json !== undefined) await writeFile(json, `${JSON.stringify(rows, null, 2)}\n`);
    return rows;
  } finally {
    await processes.stopAll();
    await postgres.close();
    await rm(folder, { recursive: true, force: true });
  }
}

/**
 * @param {object} options
 * @param {string[]} options.checkouts
 * @param {ReturnType<typeof createProcesses>} options.processes
 * @param {Awaited<ReturnType<typeof openPostgres>>} options.postgres
 * @param {string[]} options.measured
 * @param {number} options.vendorPort
 * @param {string} options.folder
 */
async function startTargets({ checkouts, processes, postgres, measured, vendorPort, folder }) {
  const floorFile = fileURLToPath(new URL('floor.js', import.meta.url));
  const floor = await processes.start('floor', [...measured, process.execPath, floorFile, `http://127.0.0.1:${vendorPort}`]);
  /** @type {RunningTarget[]} */
  const targets = [{ label: 'floor', ...floor, keys: null, database: null }];
  for (const checkout of checkouts) {
    const database = await postgres.createDatabase();
    const label = targets.some((target) => target.label === basename(checkout)) ? checkout : basename(checkout);
    const gateway = await startGateway({ name: label, checkout, processes, measured, databaseUrl: database.url, vendorPort, folder });
    targets.push({ label, ...gateway.program, keys: gateway.keys, database, gateway });
  }
  return targets;
}

/** @param {string[]} args */
function parseOptions(args) {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      checkout: { type: 'string', multiple: true, default: [root] },
      rounds: { type: 'string', default: '5' },
      'warm-up': { type: 'string', default: '3' },
      calls: { type: 'string' },
      json: { type: 'string' },
    },
  });
  const names = positionals.length > 0 ? positionals : Object.keys(scenarios);
  const unknown = names.filter((name) => !scenarios[name]);
  if (unknown.length > 0) throw new Error(`no such scenario: ${unknown.join(', ')}; there are ${Object.keys(scenarios).join(', ')}`);
  return {
    names,
    checkouts: values.checkout.map((path) => resolve(path)),
    rounds: wholeNumber('--rounds', values.rounds, 1),
    warmUp: wholeNumber('--warm-up', values['warm-up'], 0),
    calls: values.calls === undefined ? null : wholeNumber('--calls', values.calls, 1),
    json: values.json,
  };
}

/** @param {string} option @param {string} text @param {number} least */
function wholeNumber(option, text, least) {
  const value = Number(text);
  if (Number.isInteger(value) && value >= least) return value;
  throw new Error(`${option}: must be a whole number of at least ${least}`);
}
