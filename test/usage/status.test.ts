import { describe, expect, test } from '@jest/globals';
import { windowAt } from '../../src/core/windows.ts';
import type { UsageReports } from '../../src/usage/reports.ts';
import { buildStatusReport, type Ceilings, type StatusInput } from '../../src/usage/status.ts';
import { clockAt } from '../journal/calls.ts';

const now = Date.UTC(2026, 10, 20, 22, 40, 30);

const ceilings: Ceilings = {
  calls: { limit: 10_000, window: 'month' },
  cost: { limit: 50_000_000_000, window: 'month' },
  rpm: { limit: 60, window: 'minute' },
  tpm: { limit: null, window: 'minute' },
};

function statusOf(changes: Partial<StatusInput> & { spent?: number; cap?: number | null } = {}) {
  const { spent = 12_340_000_000, cap = null, ...rest } = changes;
  const unused = (): never => {
    throw new Error('not asked for');
  };
  const reports: UsageReports = {
    getUsage: unused,
    listCalls: unused,
    getMonthSpend: async () => spent,
    getKeyUsage: async () => ({ calls: 412, cost: 12_340_000_000, rpm: 3, tpm: 1_830 }),
  };
  return buildStatusReport({
    reports,
    clock: clockAt(now),
    project: { id: 'p', slug: 'acme', settings: { monthlyCapNanos: cap } },
    caller: { keyId: 'k', keyPrefix: 'k7f3a9c2', quotaKeyId: 'k', projectId: 'p', models: null, expiresAt: null },
    ceilings,
    breakers: [{ provider: 'openai', state: 'closed' }],
    demo: false,
    countedUsage: { key: {} },
    ...rest,
  });
}

test("returns the documented fields of a key's status", async () => {
  const counted = { key: { calls: { used: 412, reserved: 2 }, cost: { used: 12_340_000_000, reserved: 80_000_000 } } };
  expect(await statusOf({ countedUsage: counted })).toEqual({
    project: 'acme',
    key: {
      prefix: 'k7f3a9c2',
      expires_at: null,
      ceilings: {
        calls: { limit: 10_000, used: 412, reserved: 2, remaining: 9_586, window: 'month', resets_at: '2026-12-01T00:00:00Z' },
        cost: { limit: 50, used: 12.34, reserved: 0.08, remaining: 37.58, window: 'month', resets_at: '2026-12-01T00:00:00Z' },
        rpm: { limit: 60, used: 3, reserved: 0, remaining: 57, window: 'minute', resets_at: '2026-11-20T22:41:00Z' },
        tpm: { limit: null, used: 1_830, reserved: 0, remaining: null, window: 'minute', resets_at: '2026-11-20T22:41:00Z' },
      },
    },
    credit: { state: 'ok', monthly_cap: null, spent: 12.34 },
    breakers: [{ provider: 'openai', state: 'closed' }],
  });
});

test('reports that nothing is left of a ceiling that was exceeded', async () => {
  const caller = { keyId: 'k', keyPrefix: 'k7f3a9c2', quotaKeyId: 'k', projectId: 'p', models: null, expiresAt: now };
  const status = await statusOf({ caller, demo: true, ceilings: { ...ceilings, calls: { limit: 400, window: 'total' } } });
  expect(status.key.expires_at).toBe('2026-11-20T22:40:30Z');
  expect(status.key.ceilings.calls).toMatchObject({ limit: 400, used: 412, remaining: 0, window: 'total', resets_at: null });
  expect(status.demo).toBe(true);
});

describe('the credit of a project', () => {
  test.each([
    ['ok', 0, 0],
    ['ok', 899, 0],
    ['near_cap', 900, 0],
    ['near_cap', 800, 100],
    ['near_cap', 999, 500],
    ['exhausted', 1_000, 0],
    ['exhausted', 1_200, 0],
  ])('reports the credit as %s with %i spent and %i reserved of 1,000', async (state, spent, held) => {
    const { credit } = await statusOf({ cap: 1_000, countedUsage: { key: {}, month: { used: spent, reserved: held } } });
    expect(credit).toEqual({ state, monthly_cap: 0.000001, spent: spent / 1e9 });
  });
});

test.each([
  ['minute', Date.UTC(2026, 10, 20, 22, 40), Date.UTC(2026, 10, 20, 22, 41)],
  ['day', Date.UTC(2026, 10, 20), Date.UTC(2026, 10, 21)],
  ['month', Date.UTC(2026, 10, 1), Date.UTC(2026, 11, 1)],
  ['total', 0, null],
] as const)("returns the start and end of a ceiling's %s window in UTC", (kind, start, end) => {
  expect(windowAt(kind, now)).toEqual({ start, end });
});
