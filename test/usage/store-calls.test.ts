import { expect, test } from '@jest/globals';
import type { SettledCall } from '../../src/core/call.ts';
import type { Database } from '../../src/db/database.ts';
import { storeCalls } from '../../src/usage/store-calls.ts';
import { describeAnyDatabase } from '../db/databases.ts';
import { noon, settledCall } from '../journal/calls.ts';

const store = (database: Database, calls: readonly SettledCall[]) => database.transaction((tx) => storeCalls(tx, calls));

/** Returns the rows of `calls` and `attempts` without their ids. */
async function readRows(database: Database, { metadata: { id } }: SettledCall): Promise<unknown> {
  const [row] = await database.query<{ call: unknown; attempts: unknown }>(
    `select to_jsonb(calls) - 'id' as call,
            (select jsonb_agg(to_jsonb(attempts) - 'call_id' order by n) from attempts where call_id = calls.id) as attempts,
            (select jsonb_agg(to_jsonb(attempt_errors) - 'call_id' order by n) from attempt_errors where call_id = calls.id) as errors
       from calls where id = $1::uuid`,
    [id],
  );
  return row;
}

const [attempt] = settledCall().result.attempts;
if (!attempt) throw new Error('a settled call has an attempt');
const makeCalls = (): SettledCall[] => [
  settledCall(),
  settledCall({
    metadata: {
      startedAt: noon + 1_001,
      stream: true,
      plan: [
        { model: 'openai/gpt-4o', skipped: 'no "tools"' },
        { model: 'openai/gpt-4o-mini', skipped: null },
      ],
      memory: { mode: 'write', explicitWrite: false, subject: 'ann' },
      takesNoSlot: true,
    },
    result: {
      code: 'upstream_failed',
      cache: null,
      costNanos: null,
      units: { seconds: 3 },
      attempts: [
        attempt,
        {
          ...{ ...attempt, n: 2, status: null, outcome: 'failed', startedAt: noon + 1_999, costNanos: null },
          error: { reason: 'connect', type: null, code: 'ECONNREFUSED', message: 'the connection was refused' },
        },
      ],
    },
  }),
  settledCall({ metadata: { unmetered: true }, result: { cache: 'hit', attempts: [], durationMs: -1 } }),
];

describeAnyDatabase('stored calls', (database) => {
  test('stores the same rows whether calls are stored in a batch or one by one', async () => {
    const [together, alone] = [makeCalls(), makeCalls()];
    await store(database(), together);
    for (const call of alone) await store(database(), [call]);
    for (const [index, call] of together.entries()) {
      const row = await readRows(database(), call);
      expect(row).toMatchObject({ call: { route: 'chat', outcome: 'ok' } });
      const other = alone[index];
      expect(row).toEqual(other && (await readRows(database(), other)));
    }
  });

  test('stores the times of calls with millisecond precision', async () => {
    for (const startedAt of [0, 1, noon + 1, noon + 999, Date.UTC(2099, 11, 31, 23, 59, 59, 999)]) {
      const call = settledCall({ metadata: { startedAt } });
      await store(database(), [call]);
      const rows = await database().query(
        `select calls.started_at as call, attempts.started_at as attempt from calls join attempts on call_id = calls.id where id = $1::uuid`,
        [call.metadata.id],
      );
      expect(rows).toEqual([{ call: new Date(startedAt), attempt: new Date(startedAt + 1) }]);
    }
  });

  test('returns only the calls of a batch that were new, in order', async () => {
    const [first, second, third] = makeCalls() as [SettledCall, SettledCall, SettledCall];
    expect(await store(database(), [second])).toEqual([second]);
    expect(await store(database(), [first, second, third])).toEqual([first, third]);
    expect(await store(database(), [third, second, first])).toEqual([]);
  });
});
