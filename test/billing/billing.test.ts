import { expect, test } from '@jest/globals';
import { runSeeds, simulationSeed } from '../simulation/seeds.ts';
import { isExhaustive } from '../support/exhaustive.ts';
import { withBillingGateway } from './in-process.ts';
import { runBilling } from './run.ts';

const seeds = isExhaustive ? 2_000 : 40;

test(`records what vendors bill in ${seeds} runs of adversarial calls`, async () => {
  await withBillingGateway(async (target) => {
    const counts = await runSeeds(seeds, (seed, trace) => runBilling(target, seed, trace));
    if (simulationSeed !== null) return;
    expect(Math.min(counts.admitted, counts.denied, counts.exact)).toBeGreaterThan(seeds);
    expect(counts.estimated).toBeGreaterThan(0);
  });
}, 3_600_000);
