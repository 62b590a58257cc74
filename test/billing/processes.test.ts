import { expect, test } from '@jest/globals';
import { runSeeds, simulationSeed } from '../simulation/seeds.ts';
import { isExhaustive } from '../support/exhaustive.ts';
import { describePostgres } from '../support/postgres.ts';
import { withBillingProcesses } from './processes.ts';
import { runBilling } from './run.ts';

const seeds = isExhaustive ? 200 : 3;

describePostgres('three processes, some of which are killed', () => {
  test(`records what vendors bill in ${seeds} runs of adversarial calls`, async () => {
    await withBillingProcesses(3, async (target) => {
      const { admitted } = await runSeeds(seeds, (seed, trace) => runBilling(target, seed, trace), 10_001);
      if (simulationSeed === null) expect(admitted).toBeGreaterThan(seeds);
    });
  }, 3_600_000);
});
