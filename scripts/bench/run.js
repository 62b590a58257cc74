/** Runs the scenarios of the command line: the rounds of all targets alternate. */
import { writeFile } from 'node:fs/promises';
import { basename, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { root } from '../launch.js';
import { withBench } from './environment.js';
import { formatTable, summarize } from './report.js';
import { callsOf, scenarios } from './scenarios.js';

/** @param {string[]} args of the command line @returns {Promise<import('./report.js').Row[]>} */
export async function runBenchmark(args) {
  const { names, checkouts, rounds, warmUp, calls, json } = parseOptions(args);
  /** @type {import('./report.js').Row[]} */
  const rows = [];
  await withBench({}, async (bench) => {
    /** @type {import('./environment.js').RunningTarget[]} */
    const targets = [await bench.startFloor()];
    for (const checkout of checkouts) {
      const isTaken = targets.some(({ label }) => label === basename(checkout));
      targets.push(await bench.startGateway(checkout, isTaken ? { label: checkout } : {}));
    }
    for (const name of names) {
      const scenario = scenarios[name];
      if (!scenario) continue;
      if (scenario.needs === 'memories') for (const { gateway } of targets) await gateway?.addMemories();
      const perRound = calls ?? callsOf(scenario);
      /** @type {Map<string, import('./measure.js').Round[]>} */
      const results = new Map(targets.map(({ label }) => [label, []]));
      if (warmUp > 0) for (const target of targets) await bench.measure(target, scenario, perRound * warmUp);
      for (let done = 0; done < rounds; done += 1) {
        // Every other round in the opposite order, so that a machine that becomes slower favours none.
        for (const target of done % 2 === 0 ? targets : targets.toReversed())
          results.get(target.label)?.push(await bench.measure(target, scenario, perRound));
      }
      const found = summarize(name, results);
      rows.push(...found);
      console.log(formatTable(found, scenario.title, scenario.streams ?? false));
    }
  });
  if (json !== undefined) await writeFile(json, `${JSON.stringify(rows, null, 2)}\n`);
  return rows;
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
export function wholeNumber(option, text, least) {
  const value = Number(text);
  if (Number.isInteger(value) && value >= least) return value;
  throw new Error(`${option}: must be a whole number of at least ${least}`);
}
