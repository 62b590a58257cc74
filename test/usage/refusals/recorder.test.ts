/**
 * Tests the recorder for refused calls, i.e. which of them get a row, which are only counted, and what happens without
 * a database.
 */
import { setImmediate } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { GatewayError, gatewayError } from '../../../src/core/errors.ts';
import { newId } from '../../../src/core/ids.ts';
import type { Refusal } from '../../../src/core/refusal.ts';
import { dayMs, minuteMs } from '../../../src/core/time.ts';
import type { Database } from '../../../src/db/database.ts';
import { countRefused, listRefused } from '../../../src/usage/refusals/read-refusals.ts';
import { createRefusalRecorder, maxRowsPerMinute, type RefusalRecorder } from '../../../src/usage/refusals/recorder.ts';
import { deleteExpiredRefusals } from '../../../src/usage/refusals/store-refusals.ts';
import { describeDatabases } from '../../db/databases.ts';

const noon = Date.UTC(2026, 10, 25, 12);
const logger = { warn: () => undefined, info: () => undefined };

interface Known {
  readonly projectId: string;
  readonly keyId: string;
  readonly keyPrefix: string;
}

async function addProject(database: Database): Promise<Known> {
  const [projectId, keyId] = [newId(noon), newId(noon)];
  const slug = `p-${projectId}`;
  await database.query(`insert into projects (id, slug, name) values ($1::uuid, $2::text, $2::text)`, [projectId, slug]);
  return { projectId, keyId, keyPrefix: `gk_${keyId.slice(-8)}` };
}

const refuse = (recorder: RefusalRecorder, caller: Known | null, refusal: Refusal, startedAt = noon): void =>
  recorder.record(gatewayError('tenant_capped', { refusal }), {
    ...{ id: newId(startedAt), startedAt, route: 'chat', caller, source: 'support-bot', requestedModel: 'standard' },
  });

describeDatabases('the recorder of refused calls', (database, testOnAny) => {
  let recorder: RefusalRecorder;
  let key: Known;
  beforeEach(async () => {
    recorder = createRefusalRecorder({ database: database(), logger });
    key = await addProject(database());
  });
  afterEach(() => recorder.stop());

  const stored = async ({ projectId }: Known) => {
    await recorder.flush();
    const rows = await listRefused(database(), { projectId, limit: 1_000 });
    const { calls, recorded, byReason } = await countRefused(database(), { projectId, from: noon - minuteMs, to: noon + dayMs });
    return { rows, calls, recorded, byReason };
  };

  test('stores the reason, the caller and the requested model of a refused call', async () => {
    refuse(recorder, key, { reason: 'key_ceiling', rule: 'calls/day', limit: 100 });
    const { rows, ...counts } = await stored(key);
    expect(rows).toEqual([
      {
        ...{ id: expect.any(String), project: `p-${key.projectId}`, keyId: key.keyId, keyPrefix: key.keyPrefix, keyName: null },
        ...{ source: 'support-bot', requestedModel: 'standard', route: 'chat', status: 429, code: 'tenant_capped' },
        ...{ reason: 'key_ceiling', rule: 'calls/day', limit: 100 },
      },
    ]);
    expect(counts).toEqual({ calls: 1, recorded: 1, byReason: [{ reason: 'key_ceiling', calls: 1 }] });
  });

  testOnAny('waits for refusals that are already being stored', async () => {
    const commit = Promise.withResolvers<void>();
    const transaction: Database['transaction'] = async (work) => {
      await commit.promise;
      return database().transaction(work);
    };
    const slow = createRefusalRecorder({ database: { ...database(), transaction }, logger });
    refuse(slow, key, { reason: 'key_ceiling', rule: 'calls/day', limit: 100 });
    void slow.flush();
    await setImmediate();
    let isFlushed = false;
    const flushed = slow.flush().then(() => {
      isFlushed = true;
    });
    await setImmediate();
    expect(isFlushed).toBe(false);
    commit.resolve();
    await flushed;
    expect((await stored(key)).rows).toHaveLength(1);
    await slow.stop();
  });

  test('stores the key of a call that is refused because of its key', async () => {
    refuse(recorder, null, { reason: 'key_expired', key });
    expect((await stored(key)).rows).toEqual([expect.objectContaining({ keyPrefix: key.keyPrefix, reason: 'key_expired' })]);
  });

  test("doesn't store refusals without a key or unrelated errors", async () => {
    refuse(recorder, null, { reason: 'no_model' });
    const call = { id: newId(noon), startedAt: noon, route: 'chat', caller: key, source: null, requestedModel: null };
    recorder.record(gatewayError('bad_json'), call);
    recorder.record(new Error('no table'), call);
    expect(await stored(key)).toEqual({ rows: [], calls: 0, recorded: 0, byReason: [] });
    expect(recorder.totals()).toEqual({ recorded: 0, counted: 0, lost: 0 });
  });

  test('stores a refused call only once if its error is reported twice', async () => {
    const error = gatewayError('no_route', { refusal: { reason: 'no_model' } });
    const call = { id: newId(noon), startedAt: noon, route: 'chat', caller: key, source: null, requestedModel: null };
    recorder.record(error, call);
    recorder.record(error, call);
    expect(await stored(key)).toMatchObject({ calls: 1, recorded: 1 });
  });

  test('stores at most 60 refused calls per key and minute but counts all of them', async () => {
    const quiet = { ...key, keyId: newId(noon), keyPrefix: 'gk_quiet' };
    for (let n = 0; n < 50_000; n += 1) refuse(recorder, key, { reason: n % 2 === 0 ? 'key_ceiling' : 'model_unknown' });
    refuse(recorder, quiet, { reason: 'content_rule', rule: 'email' }, noon + 1);
    const { rows, calls, recorded, byReason } = await stored(key);
    expect(rows).toHaveLength(maxRowsPerMinute + 1);
    expect(rows[0]).toMatchObject({ keyPrefix: 'gk_quiet' });
    expect({ calls, recorded }).toEqual({ calls: 50_001, recorded: maxRowsPerMinute + 1 });
    expect(byReason).toEqual([
      { reason: 'key_ceiling', calls: 25_000 },
      { reason: 'model_unknown', calls: 25_000 },
      { reason: 'content_rule', calls: 1 },
    ]);
  });

  test('limits stored refused calls even if their timestamps alternate between two minutes', async () => {
    for (let n = 0; n < 1_000; n += 1) refuse(recorder, key, { reason: 'key_ceiling' }, noon + (n % 2) * minuteMs);
    const { rows, calls } = await stored(key);
    expect({ rows: rows.length, calls }).toEqual({ rows: maxRowsPerMinute, calls: 1_000 });
  });

  test('adds up the refused calls of several processes', async () => {
    const other = createRefusalRecorder({ database: database(), logger });
    for (let n = 0; n < 100; n += 1) {
      refuse(recorder, key, { reason: 'calls_off' });
      refuse(other, key, { reason: 'calls_off' });
    }
    await Promise.all([recorder.flush(), other.stop()]);
    expect(await stored(key)).toMatchObject({ calls: 200, recorded: 2 * maxRowsPerMinute });
  });

  testOnAny('keeps counting refused calls while the database is unavailable', async () => {
    let isDown = true;
    const flaky: Database = {
      ...database(),
      transaction: (work, settings) => (isDown ? Promise.reject(new Error('connection refused')) : database().transaction(work, settings)),
    };
    const waiting = createRefusalRecorder({ database: flaky, logger });
    const keys = Array.from({ length: 250 }, (_, n) => ({ ...key, keyId: newId(noon), keyPrefix: `gk_${n}` }));
    for (const one of keys) for (let n = 0; n < 100; n += 1) refuse(waiting, one, { reason: 'ceilings_unchecked' });
    await waiting.flush();
    for (const one of keys) refuse(waiting, one, { reason: 'ceilings_unchecked' });
    expect(await stored(key)).toMatchObject({ rows: [], calls: 0 });
    isDown = false;
    await waiting.stop();
    // The rate allows 60 rows for each of the 250 keys, and the queue 10,000 in total.
    const { calls, recorded } = await stored(key);
    expect({ calls, lost: waiting.totals().lost }).toEqual({ calls: 25_250, lost: 0 });
    expect(recorded).toBeGreaterThan(0);
    expect(recorded).toBeLessThanOrEqual(10_000);
    const [count] = await database().query<{ rows: number }>('select count(*) as rows from refused_calls where project_id = $1::uuid', [
      key.projectId,
    ]);
    expect(count?.rows).toBe(recorded);
  });

  test('reports how many refusals it lost during an outage', async () => {
    const down: Database = { ...database(), transaction: () => Promise.reject(new Error('connection refused')) };
    const waiting = createRefusalRecorder({ database: down, logger });
    for (let n = 0; n < 20_100; n += 1) refuse(waiting, { ...key, keyId: newId(noon), keyPrefix: `gk_${n}` }, { reason: 'key_ceiling' });
    expect(waiting.totals()).toEqual({ recorded: 10_000, counted: 10_000, lost: 100 });
    await waiting.stop();
  });

  test('deletes the refusals of a deleted project', async () => {
    const other = await addProject(database());
    refuse(recorder, key, { reason: 'calls_off' });
    await recorder.flush();
    await database().query('delete from projects where id = $1::uuid', [key.projectId]);
    refuse(recorder, key, { reason: 'calls_off' });
    refuse(recorder, other, { reason: 'calls_off' });
    expect(await stored(other)).toMatchObject({ calls: 1, recorded: 1 });
    expect(await stored(key)).toMatchObject({ rows: [], calls: 0 });
  });

  test('cleans up and shortens names that PostgreSQL would reject', async () => {
    const error = new GatewayError('no_route', { refusal: { reason: 'model_unknown' } });
    const call = {
      id: newId(noon),
      startedAt: noon,
      route: 'chat',
      caller: key,
      source: 'a\0b',
      requestedModel: `\ud800${'x'.repeat(999)}`,
    };
    recorder.record(error, call);
    expect((await stored(key)).rows).toEqual([expect.objectContaining({ source: 'ab', requestedModel: `\ufffd${'x'.repeat(255)}` })]);
  });

  test('deletes refused calls and their counts after the retention period', async () => {
    refuse(recorder, key, { reason: 'calls_off' }, noon);
    refuse(recorder, key, { reason: 'calls_off' }, noon + 2 * dayMs);
    await recorder.flush();
    while ((await deleteExpiredRefusals(database(), noon + dayMs)) > 0);
    const rows = await listRefused(database(), { projectId: key.projectId, limit: 10 });
    const { calls } = await countRefused(database(), { projectId: key.projectId, from: noon - dayMs, to: noon + 3 * dayMs });
    expect({ rows: rows.length, calls }).toEqual({ rows: 1, calls: 1 });
  });
});
