/** Breaks the product on purpose to prove that the billing oracle finds the defects for which it was built. */
import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { importWithMutant } from '../simulation/mutants.ts';
import { isExhaustive } from '../support/exhaustive.ts';
import type { withBillingGateway } from './in-process.ts';
import { billingMutants } from './mutants.ts';
import { BillingError, runBilling } from './run.ts';

const mostSeeds = 300;

test.each(billingMutants)('the code that the mutant replaces occurs exactly once: $name', ({ file, passage }) => {
  const source = readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8');
  expect(source.split(passage)).toHaveLength(2);
});

// Each mutant has to load the whole gateway again, so we only run these tests in exhaustive mode.
const findsMutants = isExhaustive ? test.each(billingMutants) : null;
findsMutants?.(
  'detects the defect: $name',
  async (mutant) => {
    const module = await importWithMutant(new URL('in-process.ts', import.meta.url), mutant);
    const withMutant = module['withBillingGateway'] as typeof withBillingGateway;
    await withMutant(async (target) => {
      const first = [mutant.seeds, mutant.seeds, mutant.seeds];
      for (const seed of [...first, ...Array.from({ length: mostSeeds }, (_, index) => index + 1)]) {
        const error = await runBilling(target, seed).then(
          () => null,
          (reason: unknown) => reason,
        );
        if (error !== null && !(error instanceof BillingError)) throw error;
        if (error?.violations.some(({ sentence }) => sentence === mutant.breaks)) {
          process.stdout.write(`${mutant.name}: seed ${seed}\n`);
          return;
        }
      }
      throw new Error(`not found in ${mostSeeds} seeds`);
    }, 3_000);
  },
  3_600_000,
);
