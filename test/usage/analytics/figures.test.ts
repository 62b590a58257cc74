import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import type { Attempt, Outcome, SettledCall } from '../../../src/core/call.ts';
import { monthAt } from '../../../src/core/time.ts';
import type { CalendarUnit } from '../../../src/core/time-zone.ts';
import type { Database } from '../../../src/db/database.ts';
import { streamCalls } from '../../../src/usage/analytics/call-list.ts';
import type { FiguresRequest, Group } from '../../../src/usage/analytics/figures-request.ts';
import { readFigures } from '../../../src/usage/analytics/read-figures.ts';
import { createUsageReports } from '../../../src/usage/reports.ts';
import { storeCalls } from '../../../src/usage/store-calls.ts';
import { describeDatabases } from '../../db/databases.ts';
import { type CallChanges, clockAt, noon, settledCall } from '../../journal/calls.ts';
import { isExhaustive } from '../../support/exhaustive.ts';

const store = (database: Database, calls: readonly SettledCall[]): Promise<unknown> => database.transaction((tx) => storeCalls(tx, calls));
const noCorrelation = settledCall().metadata.correlation;
const attempt = (changes: Partial<Attempt> = {}): Attempt => ({ ...(settledCall().result.attempts[0] as Attempt), ...changes });
const hour = 3_600_000;

function newProject() {
  const owner = { projectId: randomUUID(), keyId: randomUUID() };
  return {
    ...owner,
    call: ({ metadata = {}, ...changes }: CallChanges = {}) => settledCall({ ...changes, metadata: { ...owner, ...metadata } }),
  };
}

describeDatabases('figures of a project', (database) => {
  const read = (request: Pick<FiguresRequest, 'projectId'> & Partial<FiguresRequest>) =>
    readFigures(database(), { zone: 'UTC', from: noon - hour, to: noon + hour, ...request });

  test('returns zero for every hour or day of a project without calls', async () => {
    const report = await read({ projectId: randomUUID(), unit: 'hour', group: 'model', costly: ['latency', 'firstChunk', 'failovers'] });
    expect(report.total).toMatchObject({ calls: 0, costNanos: 0n, latency: null, firstChunk: null });
    expect(report.groups).toEqual([]);
    expect(report.units.map(({ start, figures }) => [start - noon, figures.calls])).toEqual([
      [-hour, 0],
      [0, 0],
    ]);
  });

  test('counts errors, unknown costs, cache hits and failovers', async () => {
    const { call, projectId } = newProject();
    const huge = Number.MAX_SAFE_INTEGER;
    const timed = (durationMs: number) =>
      call({ metadata: { stream: true }, result: { durationMs, firstByteMs: durationMs / 10, costNanos: huge } });
    await store(database(), [
      ...[100, 200, 300, 400].map(timed),
      call({ result: { costNanos: null, durationMs: 5_000, outcome: 'failed', status: 502, attempts: [attempt(), attempt({ n: 2 })] } }),
      call({ result: { costNanos: 0, outcome: 'client_left', status: 499 } }),
      call({ result: { costNanos: 0, cache: 'hit', attempts: [], durationMs: 1 } }),
      call({ metadata: { route: 'embeddings' }, result: { costNanos: 0, cache: null, durationMs: 2 } }),
      newProject().call(),
    ]);
    const { total } = await read({ projectId, costly: ['latency', 'firstChunk', 'failovers'] });
    expect(total).toMatchObject({
      calls: 8,
      errors: 1,
      costNanos: 4n * BigInt(huge),
      unpriced: 1,
      tokens: { input: 80, cachedInput: 16, cacheWrite: 0, output: 24 },
      latency: { p50: 100, p95: 400 },
      firstChunk: { p50: 20, p95: 40 },
      cacheHits: 1,
      cacheLookups: 7,
      failovers: 1,
    });
  });

  test('the top groups and the rest add up to the total', async () => {
    const { call, projectId } = newProject();
    const ofTask = (taskId: string | null, costNanos: number) =>
      call({ metadata: { correlation: { ...noCorrelation, taskId } }, result: { costNanos } });
    await store(database(), [ofTask('a', 5), ofTask('a', 5), ofTask(null, 7), ofTask('b', 3), ofTask('c', 1), ofTask('d', 1)]);
    const { groups, units } = await read({ projectId, group: 'task', top: 3, unit: 'hour' });
    expect(groups.map(({ kind, name, figures }) => [kind, name, figures.costNanos, figures.calls])).toEqual([
      ['group', 'a', 10n, 2],
      ['group', null, 7n, 1],
      ['group', 'b', 3n, 1],
      ['others', null, 2n, 2],
    ]);
    expect(units[1]?.groups.map(({ costNanos }) => costNanos)).toEqual([10n, 7n, 3n, 2n]);
    const byCalls = await read({ projectId, group: 'task', top: 1, rank: 'calls', filter: { price: 'known', task: '-' } });
    expect(byCalls.groups).toMatchObject([{ name: null, figures: { calls: 1 } }]);
  });

  test('counts attempts rather than calls when grouped by provider', async () => {
    const { call, projectId } = newProject();
    const failed = attempt({ provider: 'first', outcome: 'failed', status: 500, costNanos: 0 });
    await store(database(), [call({ result: { attempts: [failed, attempt({ n: 2, provider: 'second', costNanos: 1_000 })] } }), call()]);
    const { groups, total } = await read({ projectId, group: 'provider', costly: ['failovers', 'latency'], unit: 'day' });
    expect(groups.map(({ name, figures }) => [name, figures.calls, figures.errors, figures.costNanos, figures.failovers])).toEqual([
      ['openai', 1, 0, 1_000n, 0],
      ['second', 1, 0, 1_000n, 1],
      ['first', 1, 1, 0n, 0],
    ]);
    expect(total).toMatchObject({ calls: 3, errors: 1, costNanos: 2_000n });
  });

  test('rejects a period with too many hours or days', async () => {
    await expect(read({ projectId: randomUUID(), unit: 'minute', from: noon - 48 * hour })).rejects.toMatchObject({ code: 'bad_request' });
  });
});

const outcomes: readonly Outcome[] = ['ok', 'ok', 'ok', 'refused', 'failed', 'client_left'];

describeDatabases('totals of a project', (database) => {
  test.each([
    ['UTC', '2026-10-01T00:00:00Z'],
    ['Europe/Berlin', '2026-10-01T00:00:00Z'],
    ['Europe/Berlin', '2026-03-01T00:00:00Z'],
    ['Asia/Kolkata', '2026-10-01T00:00:00Z'],
  ])('returns the same totals by time unit, by group, by month and by row, in %s from %s', async (zone, monthStart) => {
    const seed = isExhaustive ? Math.floor(Math.random() * 2 ** 31) : 7;
    const random = createRandom(seed);
    const pick = <Item>(items: readonly Item[]): Item => items[Math.floor(random() * items.length)] as Item;
    const { call, projectId } = newProject();
    const { start, end } = monthAt(Date.parse(monthStart));
    const spread = 40 * hour;
    const calls = Array.from({ length: 300 }, () =>
      call({
        metadata: {
          // Half of them are around the end of the month, when the clocks change in Berlin.
          startedAt: Math.floor(random() < 0.5 ? start + random() * (end - start) : end - 7 * 24 * hour + (random() - 0.3) * 8 * spread),
          source: pick(['web', 'mobile', 'batch']),
          correlation: { ...noCorrelation, taskId: pick(['t-1', 't-2', null]) },
        },
        result: {
          costNanos: pick([null, 0, Math.floor(random() * 1e12)]),
          outcome: pick(outcomes),
          model: pick(['openai/gpt-4o', 'anthropic/claude', null]),
        },
      }),
    );
    await store(database(), calls);

    const inMonth = calls.filter(({ metadata: { startedAt } }) => startedAt >= start && startedAt < end);
    const sumOf = (rows: readonly SettledCall[]): bigint => rows.reduce((sum, { result }) => sum + BigInt(result.costNanos ?? 0), 0n);
    const localDay = new Intl.DateTimeFormat('en-CA', { timeZone: zone, dateStyle: 'short' });
    const byDay = Map.groupBy(inMonth, ({ metadata }) => localDay.format(metadata.startedAt));
    const selection = { projectId, zone, from: start, to: end };
    const context = `seed ${seed}`;

    const rows = await Array.fromAsync(streamCalls(database(), selection));
    expect([context, rows.length]).toEqual([context, inMonth.length]);
    const usage = await createUsageReports({ database: database(), clock: clockAt(start) }).getUsage({ projectId, monthlyCapNanos: null });
    for (const [place, unit] of (['hour', 'day', 'week', 'month'] satisfies CalendarUnit[]).entries()) {
      const all: readonly Group[] = ['source', 'model', 'task', 'status'];
      for (const group of isExhaustive ? all : all.slice(place, place + 1)) {
        const { total, groups, units } = await readFigures(database(), { ...selection, unit, group, top: 2 });
        const sumOfFigures = (parts: readonly { readonly figures: { readonly costNanos: bigint } }[]): bigint =>
          parts.reduce((sum, { figures }) => sum + figures.costNanos, 0n);
        expect(total.costNanos).toBe(sumOf(inMonth));
        expect(total.calls).toBe(inMonth.length);
        expect(total.unpriced).toBe(inMonth.filter(({ result }) => result.costNanos === null).length);
        expect(sumOfFigures(units)).toBe(total.costNanos);
        expect(sumOfFigures(groups)).toBe(total.costNanos);
        for (const { figures, groups: parts } of units) {
          expect(parts.reduce((sum, part) => sum + part.costNanos, 0n)).toBe(figures.costNanos);
          expect(parts.reduce((sum, part) => sum + part.calls, 0)).toBe(figures.calls);
        }
        expect(Math.round(usage.spend * 1e9)).toBe(Number(total.costNanos));
        expect(rows.reduce((sum, row) => sum + BigInt(row.costNanos ?? 0), 0n)).toBe(total.costNanos);
        if (unit !== 'day') continue;
        const days = units.map(({ start, figures }) => [localDay.format(start), figures.calls, figures.costNanos] as const);
        expect(days.filter(([, count]) => count > 0)).toEqual(
          [...byDay].map(([day, ofDay]) => [day, ofDay.length, sumOf(ofDay)] as const).toSorted(([a], [b]) => (a < b ? -1 : 1)),
        );
      }
    }
  });
});

/** Numbers from 0 to 1 that are the same for the same seed (mulberry32). */
function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    const mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    const value = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((value ^ (value >>> 14)) >>> 0) / 2 ** 32;
  };
}
