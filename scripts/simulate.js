/**
 * Runs a simulation with one seed after another in a single process, and prints how many seeds it got through
 * (docs/testing.md#simulation).
 *
 *   npm run simulate -- ceilings|journal [--seeds 200000] [--from 1] [--minutes 15]
 */
import { parseArgs } from 'node:util';
import { runCeilings } from '../test/simulation/ceilings-run.ts';
import { runJournal } from '../test/simulation/journal-run.ts';
import { runSeeds } from '../test/simulation/seeds.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seeds: { type: 'string', default: '200000' },
    from: { type: 'string', default: '1' },
    minutes: { type: 'string', default: '15' },
  },
});
const [name = ''] = positionals;
/** @type {Record<string, (seed: number) => Promise<Readonly<Record<string, number>>>>} */
const runs = { ceilings: runCeilings, journal: runJournal };
const run = runs[name];
if (!run) throw new Error('usage: npm run simulate -- ceilings|journal [--seeds n] [--from n] [--minutes n]');
const [seeds, from, minutes] = [Number(values.seeds), Number(values.from), Number(values.minutes)];

const deadline = performance.now() + minutes * 60_000;
const before = process.cpuUsage();
let done = 0;
for (; done < seeds && performance.now() < deadline; done += 100) await runSeeds(Math.min(100, seeds - done), run, from + done);
const { user, system } = process.cpuUsage(before);
console.log(`${Math.min(done, seeds)} seeds from ${from}, no failure, ${((user + system) / 1_000 / done).toFixed(2)} ms of CPU time each`);
