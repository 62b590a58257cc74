/**
 * Runs the ceilings protocol in simulations with many seeds (see `ceilings-run.ts`). If one fails, the error has its
 * seed. GATEWAY_SIMULATION_SEED=n only runs this seed and prints what happens.
 */
import { expect, test } from '@jest/globals';
import { isExhaustive } from '../support/exhaustive.ts';
import { ceilingsMutants } from './ceilings-mutants.ts';
import { runCeilings } from './ceilings-run.ts';
import { InvariantError } from './invariants.ts';
import { importWithMutant } from './mutants.ts';
import { runSeeds, simulationSeed } from './seeds.ts';

const seeds = isExhaustive ? 20_000 : 120;
/** We only search for mutants that need more seeds in the exhaustive run. */
const quickSeeds = 60;

test(`leaves no budget stranded in ${seeds} runs with lost messages and dead processes`, async () => {
  const { admitted, denied } = await runSeeds(seeds, runCeilings);
  if (simulationSeed === null) expect(Math.min(admitted, denied)).toBeGreaterThan(seeds);
}, 3_600_000);

test.each(ceilingsMutants.filter(({ seeds: needed }) => isExhaustive || needed <= quickSeeds))(
  'detects a bug that we planted in ceilings: $name',
  async (mutant) => {
    const module = await importWithMutant(new URL('ceilings-run.ts', import.meta.url), mutant);
    const run = module['runCeilings'] as typeof runCeilings;
    // The mutant has loaded its own copy of the error's class.
    await expect(runSeeds(seeds, run)).rejects.toMatchObject({ cause: { name: InvariantError.name } });
  },
  3_600_000,
);
