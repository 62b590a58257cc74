/**
 * Runs the journal in simulations with many seeds (see `journal-run.ts`). If one fails, the error has its seed.
 * GATEWAY_SIMULATION_SEED=n only runs this seed and prints what happens.
 */
import { expect, test } from '@jest/globals';
import { isExhaustive } from '../support/exhaustive.ts';
import { InvariantError } from './invariants.ts';
import { journalMutants } from './journal-mutants.ts';
import { runJournal, runJournalOnFiles } from './journal-run.ts';
import { importWithMutant } from './mutants.ts';
import { runSeeds, simulationSeed } from './seeds.ts';

const seeds = isExhaustive ? 20_000 : 120;
/** The control of the simulated disk. */
const seedsOnFiles = isExhaustive ? 500 : 5;

test(`loses no confirmed call in ${seeds} runs with full disks, locked projects and power failures`, async () => {
  const { stored, deaths, unknown, rejected, lost, lockTimeouts } = await runSeeds(seeds, runJournal);
  if (simulationSeed !== null) return;
  expect(Math.min(stored, unknown)).toBeGreaterThan(seeds);
  expect(deaths).toBeGreaterThan(seeds / 2);
  expect(rejected).toBeGreaterThan(seeds / 20);
  expect(lost).toBeGreaterThan(0);
  expect(lockTimeouts).toBeGreaterThan(seeds / 8);
}, 3_600_000);

test(`loses no confirmed call on real files in ${seedsOnFiles} runs`, async () => {
  const { stored } = await runSeeds(seedsOnFiles, runJournalOnFiles);
  if (simulationSeed === null) expect(stored).toBeGreaterThan(seedsOnFiles);
}, 3_600_000);

test.each(journalMutants.filter(({ seeds: needed }) => needed <= seeds))(
  'detects a bug that we planted in the journal: $name',
  async (mutant) => {
    const module = await importWithMutant(new URL('journal-run.ts', import.meta.url), mutant);
    const run = module['runJournal'] as typeof runJournal;
    const search = async (): Promise<void> => {
      // After most changes, the bug is still found by the seed that found it before.
      await runSeeds(1, run, mutant.seeds);
      await runSeeds(seeds, run);
    };
    // The mutant has loaded its own copy of the error's class.
    await expect(search()).rejects.toMatchObject({ cause: { name: InvariantError.name } });
  },
  3_600_000,
);
