import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { countersFor, createCounterCache, hasCostCeiling, isOpenInAMinute, type Limits } from '../../src/ceilings/counters.ts';

const limit = fc.option(fc.integer({ min: 0, max: 3 }));
const ceiling = fc.record({ limit, window: fc.constantFrom('minute', 'day', 'month', 'total') });
const ceilings: fc.Arbitrary<Limits['key']> = fc.record({ calls: ceiling, cost: ceiling, rpm: ceiling, tpm: ceiling });
const project: fc.Arbitrary<Limits['project']> = fc.record({
  readAt: fc.nat(),
  mayCall: fc.constant(true),
  monthlyCapNanos: limit,
  applications: fc.record({ calls: ceiling, cost: ceiling }).map((own) => new Map([['app', { ceilings: own }]])),
});
const newYear = Date.parse('2027-01-01T00:00:00Z');

test('reuses cached ceiling counters only for calls with the same limits in the same time window', () => {
  const twoCeilings = fc.tuple(ceilings, ceilings);
  const twoProjects = fc.tuple(project, project);
  const which = fc.constantFrom(0 as const, 1 as const);
  const call = fc.record({
    key: which,
    project: which,
    keyId: fc.constantFrom('k1', 'k2'),
    source: fc.constantFrom('app', 'other'),
    at: fc.integer({ min: newYear - 90_000, max: newYear + 90_000 }),
  });
  fc.assert(
    fc.property(twoCeilings, twoProjects, fc.array(call, { maxLength: 40 }), (keys, projects, calls) => {
      const cached = createCounterCache();
      for (const { key, project: index, keyId, source, at } of calls) {
        const limits: Limits = { projectId: `p${index}`, keyId, source, key: keys[key], project: projects[index] };
        expect(cached(limits, at)).toEqual(countersFor(limits, at));
      }
    }),
  );
});

const none = { limit: null, window: 'month' } as const;
const limitsWith = (own: { key?: number; application?: number; cap?: number }): Limits => ({
  ...{ projectId: 'p', keyId: 'k', source: 'app' },
  key: { calls: none, cost: { ...none, limit: own.key ?? null }, rpm: none, tpm: none },
  project: {
    ...{ readAt: 0, mayCall: true, monthlyCapNanos: own.cap ?? null },
    applications: new Map([['app', { ceilings: { calls: none, cost: { ...none, limit: own.application ?? null } } }]]),
  },
});

test.each([{ key: 1 }, { application: 1 }, { cap: 1 }, { key: 1, application: 2, cap: 3 }])(
  'counts the cost against each of the ceilings %j',
  (own) => {
    const limits = limitsWith(own);
    expect(hasCostCeiling(limits)).toBe(true);
    expect(countersFor(limits, newYear).map(({ key, limit: counted }) => [key.scope, key.scopeId, key.ceiling, counted])).toEqual(
      [
        ['key', 'k', 'cost', own.key],
        ['source', 'app', 'cost', own.application],
        ['project', '', 'cost', own.cap],
      ].filter(([, , , counted]) => counted !== undefined),
    );
  },
);

test('uses no counters for calls without ceilings', () => {
  expect([hasCostCeiling(limitsWith({})), countersFor(limitsWith({}), newYear)]).toEqual([false, []]);
});

test.each([
  ['minute', 0, false],
  ['day', 0, true],
  ['day', 86_400_000 - 60_000, false],
  ['day', 86_400_000 - 60_001, true],
  ['total', 0, true],
] as const)('predicts if a %s window is still open in a minute, %d ms into the year', (window, elapsedMs, expected) => {
  const at = newYear + elapsedMs;
  const limits = { ...limitsWith({}), key: { calls: { limit: 1, window }, cost: none, rpm: none, tpm: none } };
  const [counter] = countersFor(limits, at);
  expect(counter && isOpenInAMinute(counter.key, at)).toBe(expected);
});
