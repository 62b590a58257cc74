/**
 * Runs two servers and two workers on one PostgreSQL and one Temporal server. Workers are restarted one after the other
 * under load. No message may be lost or learned twice.
 */
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { isExhaustive } from '../support/exhaustive.ts';
import { eventually } from '../support/gateway.ts';
import { describePostgres } from '../support/postgres.ts';
import { createReplicas, createUsers, expectLearnedOnce, type Replicas } from '../support/replicas.ts';

/** Every restart costs the CPU time of a new worker, and the users go on chatting meanwhile. */
const ends = isExhaustive ? (['SIGTERM', 'SIGKILL', 'SIGKILL', 'SIGTERM'] as const) : (['SIGTERM', 'SIGKILL'] as const);

describePostgres('a service with two API processes and two workers', () => {
  let replicas: Replicas;
  beforeAll(async () => {
    replicas = await createReplicas();
  });
  afterAll(() => replicas?.stopAll());

  it('learns each fact exactly once while workers stop and crash under load', async () => {
    const { database, start } = replicas;
    const serving = [await start('serve'), await start('serve')] as const;
    const workers = [await start('worker'), await start('worker')];
    const users = await createUsers(replicas, serving);
    /** Resolves once a new batch is being processed. */
    const untilBusy = async (): Promise<void> => {
      const [last] = await database.query<{ n: number }>(`select count(*)::integer as n from memory_batches`);
      await eventually(async () => {
        const busy = `select (select count(*)::integer from memory_batches) as n
          where exists (select 1 from memory_batch_groups where state in ('waiting', 'learned') and attempts > 0)`;
        const [now] = await database.query<{ n: number }>(busy);
        expect(now?.n).toBeGreaterThan(last?.n ?? 0);
      });
    };
    await users.chatDuring(async () => {
      for (const signal of ends) {
        await untilBusy();
        expect(await workers.shift()?.end(signal)).toBe(signal === 'SIGTERM' ? 0 : 'SIGKILL');
        // The last one isn't replaced, so the other worker has to finish its work.
        if (signal !== ends.at(-1)) workers.push(await start('worker'));
      }
    }, 600);
    await expectLearnedOnce(replicas, users, [`learning/${users.projectId}`]);
    for (const gateway of [...serving, ...workers]) expect(await gateway.end('SIGTERM')).toBe(0);
  });
});
