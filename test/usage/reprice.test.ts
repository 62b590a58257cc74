/**
 * Tests that repricing changes costs, attempts and ceiling counters together, exactly once, and while drains and
 * admissions are running.
 */
import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { applyCostAdjustments } from '../../src/ceilings/counter-updates.ts';
import type { Limits } from '../../src/ceilings/counters.ts';
import type { SettledCall } from '../../src/core/call.ts';
import { newId } from '../../src/core/ids.ts';
import type { Price, Tokens } from '../../src/core/pricing.ts';
import { noTokens } from '../../src/core/pricing.ts';
import type { Database } from '../../src/db/database.ts';
import { priceAt, recordPrices } from '../../src/usage/prices/price-history.ts';
import { type ModelPrices, toStoredPrice } from '../../src/usage/prices/stored-price.ts';
import { createReprice, type RepriceRequest } from '../../src/usage/reprice.ts';
import { countersIn, createTestProcess, limitsOf, storeAndCount } from '../ceilings/quota-harness.ts';
import { describeDatabases } from '../db/databases.ts';
import { clockAt, noon, settledCall } from '../journal/calls.ts';

const hourMs = 3_600_000;
const model = 'openai/gpt-4o';

/** `usd` per million output tokens. Input is free. */
function pricesOf(usd: number, changes: Partial<ModelPrices> = {}): ModelPrices {
  const nanos = BigInt(usd) * 1_000_000_000n;
  const price: Price = { inputNanos: 0n, outputNanos: nanos, cachedInputNanos: 0n, cacheWriteNanos: 0n, cacheWrite1hNanos: 0n };
  return { price, perImageNanos: null, perMillionCharactersNanos: null, perSecondNanos: null, ...changes };
}

/** Starts without calls and with these prices only. */
async function prepare(database: Database, dated: readonly (readonly [string, number, ModelPrices])[]) {
  for (const table of ['calls', 'attempts', 'limit_counters', 'model_prices']) await database.query(`delete from ${table}`);
  for (const [name, at, prices] of dated) await recordPrices(database, [{ model: name, price: toStoredPrice(prices), source: 'file' }], at);
  const reprice = createReprice({ database, adjustCosts: applyCostAdjustments });
  return (request: Partial<RepriceRequest> = {}) =>
    reprice({ from: noon, to: noon + hourMs, prices: 'dated', projectId: null, models: null, ...request });
}

const costsOf = (database: Database, projectId: string) =>
  database.query<{ id: string; at: Date; cost: number | null; attempt: number | null; estimated: boolean }>(
    `select c.id, c.started_at as at, c.cost_nanos as cost, a.cost_nanos as attempt, c.estimated
       from calls c left join attempts a on a.call_id = c.id and a.n = 1 where c.project_id = $1::uuid order by c.id`,
    [projectId],
  );

/** Returns a call with a single attempt at the model of `result`. */
function callOf(projectId: string, changes: Parameters<typeof settledCall>[0] & { tokens?: Partial<Tokens> } = {}): SettledCall {
  const { metadata, result = {}, tokens = { output: 1_000 } } = changes;
  const settled = settledCall({
    metadata: { projectId, ...metadata },
    result: { ...result, tokens: { ...noTokens, ...tokens } },
  });
  const [provider = '', name = ''] = (settled.result.model ?? model).split('/');
  const attempts = settled.result.attempts.map((attempt) => ({ ...attempt, provider, model: name }));
  return { ...settled, result: { ...settled.result, attempts } };
}

/** Makes statements fail that wait for a lock. */
function withLockTimeout(database: Database): Database {
  const transaction: Database['transaction'] = (work) =>
    database.transaction(async (tx) => {
      await tx.query(`set local lock_timeout = '200ms'`);
      return work(tx);
    });
  return { ...database, transaction, query: (text, values) => transaction((tx) => tx.query(text, values)) };
}

describeDatabases('the command reprice', (database, testOnAny) => {
  testOnAny('reprices each call with the price that was in effect when it started', async () => {
    const run = await prepare(database(), [
      [model, noon, pricesOf(2)],
      [model, noon + hourMs / 2, pricesOf(5)],
    ]);
    const clock = clockAt(noon);
    const process = createTestProcess({ database: database(), clock });
    const ceilings = { calls: { limit: 1_000, window: 'day' }, cost: { limit: 1e12, window: 'day' } } as const;
    const project = { monthlyCapNanos: 1e12, applications: new Map([['acme', { ceilings }]]) };
    const limits = limitsOf({ cost: 1e12, tpm: 1e9 }, { window: 'total', project });
    // Three pages of calls.
    for (let n = 0; n < 600; n += 1) {
      const call = await process.admit(limits, { costNanos: 7, tokens: 1_000 }, noon + n * 6_000);
      if (call) process.settle(call, { costNanos: 7, tokens: 1_000 });
    }
    await process.store();

    const receipt = await run({ projectId: limits.projectId });

    const nanos = 300 * 2_000_000 + 300 * 5_000_000;
    expect(receipt).toMatchObject({
      ...{ calls: 600, calls_changed: 600, calls_newly_priced: 0, attempts_changed: 600, counters_changed: 3, prices_corrected: [] },
      left: { price_unknown: 0, units_not_kept: 0, video: 0 },
      difference: (nanos - 600 * 7) / 1e9,
    });
    const rows = await costsOf(database(), limits.projectId);
    for (const { at, cost, attempt } of rows) {
      expect(cost).toBe(at.getTime() < noon + hourMs / 2 ? 2_000_000 : 5_000_000);
      expect(attempt).toBe(cost);
    }
    const counters = await countersIn(database(), limits.projectId);
    expect(counters.filter(({ ceiling }) => ceiling === 'cost').map(({ settled }) => settled)).toEqual([nanos, nanos, nanos]);
    for (const counter of counters) expect(counter.settled).toBe(counter.rows);

    const again = await run({ projectId: limits.projectId });

    expect(again).toMatchObject({ calls: 600, calls_changed: 0, attempts_changed: 0, counters_changed: 0, difference: 0 });
    expect(await costsOf(database(), limits.projectId)).toEqual(rows);
    expect(await countersIn(database(), limits.projectId)).toEqual(counters);
  });

  test('prices each attempt with its own model', async () => {
    const other = 'openai/gpt-4o-mini';
    const run = await prepare(database(), [
      [model, noon, pricesOf(2)],
      [other, noon, pricesOf(30)],
    ]);
    const projectId = randomUUID();
    const call = callOf(projectId);
    const [attempt] = call.result.attempts;
    if (!attempt) throw new Error('the call has no attempt');
    const [provider = '', name = ''] = other.split('/');
    const hung = { ...attempt, n: 1, provider, model: name, status: null, outcome: 'failed' as const };
    const attempts = [hung, { ...attempt, n: 2 }];
    await storeAndCount(database(), [{ ...call, result: { ...call.result, attempts } }]);

    await run({ projectId });

    expect(await costsOf(database(), projectId)).toMatchObject([{ cost: 32_000_000, attempt: 30_000_000 }]);
    expect(await run({ projectId })).toMatchObject({ calls_changed: 0, attempts_changed: 0 });
  });

  testOnAny('keeps ceiling counters correct while calls are stored during repricing', async () => {
    const run = await prepare(database(), [[model, noon, pricesOf(3)]]);
    const projectId = randomUUID();
    const clock = clockAt(noon);
    const process = createTestProcess({ database: database(), clock });
    const project = { monthlyCapNanos: 1e12 };
    const storeSome = async (round: number): Promise<void> => {
      // Each round has a new key, so its counter is created from the rows while they change.
      const limits = limitsOf({ cost: 1e12 }, { projectId, project, ...(round % 2 === 0 && { keyId: randomUUID() }) });
      for (let n = 0; n < 20; n += 1) {
        const call = await process.admit(limits, { costNanos: 11, tokens: 1_000 }, noon + round * 1_000 + n);
        if (call) process.settle(call, { costNanos: 11, tokens: 1_000 });
      }
      await process.store();
    };
    for (let round = 0; round < 10; round += 1) await storeSome(round);

    let isOver = false;
    const storing = (async () => {
      let round = 10;
      for (; !isOver || round < 20; round += 1) await storeSome(round);
      return round;
    })();
    const receipts = [await run(), await run(), await Promise.all([run(), run({ projectId })])].flat();
    isOver = true;
    const rounds = await storing;

    expect(receipts[0]?.calls_changed).toBeGreaterThanOrEqual(200);
    const last = await run();
    expect(last.calls).toBe(20 * rounds);
    expect(receipts.reduce((sum, { calls_changed }) => sum + calls_changed, last.calls_changed)).toBe(20 * rounds);
    const rows = await costsOf(database(), projectId);
    expect(rows).toHaveLength(20 * rounds);
    expect(new Set(rows.flatMap(({ cost, attempt }) => [cost, attempt]))).toEqual(new Set([3_000_000]));
    const counters = await countersIn(database(), projectId);
    expect(counters.length).toBeGreaterThan(5);
    for (const counter of counters) expect(counter.settled).toBe(counter.rows);
    expect(Math.max(...counters.map(({ settled }) => settled))).toBe(20 * rounds * 3_000_000);
  });

  test('reprices calls while counters and leases are being created', async () => {
    if (database().kind === 'embedded') return; // Its single session runs one transaction after the other.
    await prepare(database(), [[model, noon, pricesOf(2)]]);
    const limits = limitsOf({ cost: 1e12 });
    const { projectId } = limits;
    const process = createTestProcess({ database: database(), clock: clockAt(noon) });
    const call = await process.admit(limits, { costNanos: 5 }, noon);
    if (call) process.settle(call, { costNanos: 5, tokens: 1_000 });
    await process.store();
    // Two pages of calls.
    await storeAndCount(
      database(),
      Array.from({ length: 300 }, () => callOf(projectId, { metadata: { keyId: limits.keyId }, result: { costNanos: 5 } })),
    );
    const newKey = limitsOf({ cost: 1e12 }, { projectId, project: { monthlyCapNanos: 1e12 } });
    const admitted: boolean[] = [];
    const admitBetweenPages = async (text: string): Promise<void> => {
      if (!text.includes('order by c.id') || admitted.length > 1) return;
      const other = createTestProcess({ database: withLockTimeout(database()), clock: clockAt(noon), onStoreDown: 'refuse' });
      const admit = async (of: Limits) => admitted.push((await other.admit(of, { costNanos: 1 }, noon)) !== null);
      await admit(limits);
      await admit(newKey);
    };
    const reprice = createReprice({
      database: {
        ...database(),
        transaction: (work) =>
          database().transaction((tx) =>
            work({
              query: async (text, values) => {
                await admitBetweenPages(text);
                return tx.query(text, values);
              },
            }),
          ),
      },
      adjustCosts: applyCostAdjustments,
    });

    await reprice({ from: noon, to: noon + hourMs, prices: 'dated', projectId: null, models: null });

    expect(admitted).toEqual([true, true]);
    for (const counter of await countersIn(database(), projectId)) expect(counter.settled).toBe(counter.rows);
  });

  test('sets the cost of a call that had no price before', async () => {
    const run = await prepare(database(), [
      [model, noon, pricesOf(2)],
      ['openai/late', noon + hourMs, pricesOf(2)],
      ['openai/image', noon, pricesOf(2, { perImageNanos: 5n })],
      ['openai/drawn', noon, pricesOf(4)],
      ['openai/voice', noon, pricesOf(2, { perMillionCharactersNanos: 7n })],
      ['cohere/rank', noon, pricesOf(0, { price: { ...zero, perSearchNanos: 9n } })],
      ['openai/movie', noon, pricesOf(2, { perSecondNanos: 9n })],
    ]);
    const projectId = randomUUID();
    const call = (name: string | null, route: 'chat' | 'images' | 'speech' | 'rerank' | 'video', costNanos: number | null, more = {}) =>
      callOf(projectId, { metadata: { route, startedAt: noon + 5 }, result: { model: name, costNanos, ...more } });
    const calls: [SettledCall, number | null][] = [
      [call(model, 'chat', null, { estimated: true }), 2_000_000],
      [call('openai/late', 'chat', 77), 77],
      [call('openai/unheard-of', 'chat', null), null],
      [call('openai/image', 'images', 78), 78],
      [call('openai/drawn', 'images', 79), 4_000_000],
      [callOf(projectId, { metadata: { route: 'images' }, result: { model: 'openai/drawn', costNanos: 80 }, tokens: {} }), 80],
      [call('cohere/rank', 'rerank', 81), 81],
      [call('openai/image', 'images', 85, { units: { images: 3 } }), 15],
      [call('openai/voice', 'speech', 86, { units: { characters: 2_000_000 } }), 14],
      [call('cohere/rank', 'rerank', 87, { units: { searches: 2 } }), 18],
      [call('openai/movie', 'video', 82), 82],
      [callOf(projectId, { result: { cache: 'hit', costNanos: 0, attempts: [] }, tokens: {} }), 0],
      [callOf(projectId, { result: { model: null, outcome: 'failed', costNanos: 0, attempts: [] }, tokens: {} }), 0],
      [callOf(projectId, { metadata: { startedAt: noon + hourMs }, result: { costNanos: 83 } }), 83],
      [callOf(projectId, { metadata: { startedAt: noon - 1 }, result: { costNanos: 84 } }), 84],
    ];
    const ordered = calls.map(([{ metadata, ...rest }, cost]): [SettledCall, number | null] => [
      { ...rest, metadata: { ...metadata, id: newId(metadata.startedAt) } },
      cost,
    ]);
    await storeAndCount(
      database(),
      ordered.map(([settled]) => settled),
    );

    const receipt = await run({ projectId });

    expect(receipt).toMatchObject({
      ...{ calls: 13, calls_changed: 5, calls_newly_priced: 1, attempts_changed: 5 },
      left: { price_unknown: 2, units_not_kept: 3, video: 1 },
    });
    const rows = new Map((await costsOf(database(), projectId)).map((row) => [row.id, row]));
    for (const [{ metadata, result }, cost] of ordered) {
      const row = rows.get(metadata.id);
      expect([metadata.route, result.model, row?.cost, row?.estimated]).toEqual([metadata.route, result.model, cost, result.estimated]);
      if (result.attempts.length > 0) expect(row?.attempt).toBe(cost);
    }
  });

  test('applies current prices to calls of the given models within the period', async () => {
    const later = noon + 2 * hourMs;
    const run = await prepare(database(), [
      [model, noon - hourMs, pricesOf(2)],
      [model, noon + 1_000, pricesOf(900)],
      [model, later, pricesOf(3)],
      ['openai/other', noon - hourMs, pricesOf(10)],
      ['openai/other', later, pricesOf(20)],
    ]);
    const projectId = randomUUID();
    const at = [noon - 1, noon, noon + 2_000, noon + hourMs, later];
    await storeAndCount(
      database(),
      at.flatMap((startedAt) => [
        callOf(projectId, { metadata: { startedAt }, result: { costNanos: 1 } }),
        callOf(projectId, { metadata: { startedAt }, result: { costNanos: 1, model: 'openai/other' } }),
      ]),
    );
    const everything = { projectId, from: noon - hourMs, to: later + 1 };
    const costs = async () => {
      const rows = await database().query<{ model: string; cost: number }>(
        'select model, cost_nanos / 1000000 as cost from calls where project_id = $1::uuid order by model, started_at',
        [projectId],
      );
      return rows.map(({ cost }) => cost);
    };
    await run(everything);
    expect(await costs()).toEqual([2, 2, 900, 900, 3, 10, 10, 10, 10, 20]);

    const receipt = await run({ prices: 'now', models: [model] });

    const expected = [2, 3, 3, 900, 3, 10, 10, 10, 10, 20];
    expect(receipt).toMatchObject({ calls: 2, calls_changed: 2, prices_corrected: [model], difference: (3 + 3 - 902) / 1_000 });
    expect(await costs()).toEqual(expected);
    expect(await run({ prices: 'now', models: [model] })).toMatchObject({ calls_changed: 0, prices_corrected: [] });
    expect(await run(everything)).toMatchObject({ calls: 10, calls_changed: 0 });
    expect(await costs()).toEqual(expected);
    const inForce = async (ms: number) => (await priceAt(database(), model, ms))?.price?.outputNanos;
    expect(await Promise.all([noon - 1, noon, noon + hourMs - 1, noon + hourMs, later].map(inForce))).toEqual(
      [2n, 3n, 3n, 900n, 3n].map((usd) => usd * 1_000_000_000n),
    );
    await expect(run({ prices: 'now', models: [model, 'openai/nobody'] })).rejects.toMatchObject({ code: 'bad_request' });
  });

  test('continues a failed repricing without changing any call twice', async () => {
    const run = await prepare(database(), [[model, noon, pricesOf(2)]]);
    const limits = limitsOf({ cost: 1e12 }, { window: 'total' });
    const { projectId, keyId } = limits;
    await createTestProcess({ database: database(), clock: clockAt(noon) }).admit(limits, { costNanos: 5 }, noon);
    const calls = Array.from({ length: 400 }, () => callOf(projectId, { metadata: { keyId }, result: { costNanos: 5 } }));
    await storeAndCount(database(), calls);
    let slices = 0;
    const failing = createReprice({
      database: database(),
      adjustCosts: async (tx, changes) => {
        slices += 1;
        if (slices > 1) throw new Error('the last step');
        return applyCostAdjustments(tx, changes);
      },
    });

    await expect(failing({ from: noon, to: noon + hourMs, prices: 'dated', projectId: null, models: null })).rejects.toThrow(
      'the last step',
    );

    const rows = await costsOf(database(), projectId);
    expect(Map.groupBy(rows, ({ cost, attempt }) => `${cost} ${attempt}`)).toMatchObject({ size: 2 });
    for (const counter of await countersIn(database(), projectId)) expect(counter.settled).toBe(counter.rows);
    const first = rows.filter(({ cost }) => cost !== 5).length;
    expect(await run()).toMatchObject({ calls: 400, calls_changed: 400 - first, counters_changed: 1 });
    for (const counter of await countersIn(database(), projectId))
      expect(counter).toMatchObject({ settled: 400 * 2_000_000, rows: 400 * 2_000_000 });
  });
});

const zero = { inputNanos: 0n, outputNanos: 0n, cachedInputNanos: 0n, cacheWriteNanos: 0n, cacheWrite1hNanos: 0n };
