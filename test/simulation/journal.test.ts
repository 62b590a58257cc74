/**
 * The journal in seeded simulations (`journal-run.ts`). A failing seed is named in the error; GATEWAY_SIMULATION_SEED=n runs only that seed, and
 * prints what happens.
 */
import { expect, test } from '@jest/globals';
import { isExhaustive } from '../support/exhaustive.ts';
import { InvariantError } from './invariants.ts';
import { journalMutants } from './journal-mutants.ts';
import { runJournal } from './journal-run.ts';
import { importWithMutant } from './mutants.ts';
import { runSeeds, simulationSeed } from './seeds.ts';

const seeds = isExhaustive ? 5_000 : 100;

test(`no settled call is lost, changed or stored out of order in ${seeds} runs with full disks, outages and dead processes`, async () => {
  const { stored, deaths, unknown } = await runSeeds(seeds, runJournal);
  if (simulationSeed === null) expect(Math.min(stored, deaths, unknown)).toBeGreaterThan(seeds / 2);
}, 3_600_000);

test.each(journalMutants)(
  'finds: $name',
  async (mutant) => {
    const module = await importWithMutant(new URL('journal-run.ts', import.meta.url), mutant);
    // The mutant has loaded its own copy of the error's class.
    await expect(runSeeds(seeds, module['runJournal'] as typeof runJournal)).rejects.toMatchObject({
      cause: { name: InvariantError.name },
    });
  },
  3_600_000,
);
