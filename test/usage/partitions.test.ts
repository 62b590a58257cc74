import { expect, test } from '@jest/globals';
import type { SettledCall } from '../../src/core/call.ts';
import type { Database } from '../../src/db/database.ts';
import { ensurePartitions } from '../../src/usage/partitions.ts';
import { storeCalls } from '../../src/usage/store-calls.ts';
import { describeDatabases } from '../db/databases.ts';
import { clockAt, noon, settledCall } from '../journal/calls.ts';

const storeAt = async (database: Database, startedAt: number): Promise<string> => {
  const call = settledCall({ metadata: { startedAt } });
  await database.transaction((tx) => storeCalls(tx, [call]));
  return call.metadata.id;
};

const tablesOf = async (database: Database, id: string): Promise<unknown[]> => {
  const rows = await database.query<{ name: string }>(
    `select tableoid::regclass::text as name from calls where id = $1::uuid
     union all
     select tableoid::regclass::text from attempts where call_id = $1::uuid`,
    [id],
  );
  return rows.map(({ name }) => name);
};

describeDatabases('partitions of the calls table', (database) => {
  test('creates partitions for this month and the next one', async () => {
    const clock = clockAt(noon);
    await Promise.all([ensurePartitions(database(), clock), ensurePartitions(database(), clock)]);
    await ensurePartitions(database(), clock);
    expect(await tablesOf(database(), await storeAt(database(), noon))).toEqual(['calls_2026_11', 'attempts_2026_11']);
    expect(await tablesOf(database(), await storeAt(database(), Date.UTC(2026, 11, 1)))).toEqual(['calls_2026_12', 'attempts_2026_12']);
    expect(await tablesOf(database(), await storeAt(database(), Date.UTC(2027, 0, 1)))).toEqual(['calls_default', 'attempts_default']);
  });

  test("doesn't create a partition for a month that already has calls in the default partition", async () => {
    const march = Date.UTC(2027, 2, 10);
    const id = await storeAt(database(), march);
    await ensurePartitions(database(), clockAt(march));
    expect(await tablesOf(database(), id)).toEqual(['calls_default', 'attempts_default']);
    expect(await tablesOf(database(), await storeAt(database(), march))).toEqual(['calls_default', 'attempts_default']);
    expect(await tablesOf(database(), await storeAt(database(), Date.UTC(2027, 3, 1)))).toEqual(['calls_2027_04', 'attempts_2027_04']);
  });

  test("doesn't store a call twice in a partitioned table", async () => {
    const call = settledCall();
    const store = (): Promise<readonly SettledCall[]> => database().transaction((tx) => storeCalls(tx, [call]));
    expect(await store()).toEqual([call]);
    expect(await store()).toEqual([]);
  });

  test('rethrows unrelated errors while creating partitions', async () => {
    const broken: Database = {
      ...database(),
      query: async () => {
        throw Object.assign(new Error('no such function'), { code: '42883' });
      },
    };
    await expect(ensurePartitions(broken, clockAt(noon))).rejects.toThrow('no such function');
  });
});
