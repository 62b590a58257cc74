/** Tests that every process knows the state of the circuit breakers in all processes. */
import { afterEach, expect, test } from '@jest/globals';
import { newId } from '../../src/core/ids.ts';
import type { Database } from '../../src/db/database.ts';
import { createBreakers } from '../../src/failover/breaker.ts';
import { createSharedBreakers } from '../../src/routing/shared-breakers.ts';
import { describeDatabases } from '../db/databases.ts';
import { clockAt, noon } from '../journal/calls.ts';
import { until } from '../support/until.ts';

const second = 1_000;

describeDatabases('circuit breakers that two processes share', (database) => {
  const running: { stop(): Promise<void> }[] = [];
  afterEach(async () => {
    for (const { stop } of running.splice(0)) await stop();
    await database().query('delete from processes');
  });

  async function startProcess() {
    const process = newId(noon);
    await database().query('insert into processes (id, started_at, heartbeat_at) values ($1::uuid, now(), now())', [process]);
    const clock = clockAt(noon);
    const breakers = createBreakers(clock, (projectId, provider) => shared.changed(projectId, provider));
    const shared = createSharedBreakers({
      ...{ database: database(), statusDatabase: database(), process, breakers, livenessTimeoutMs: 60_000 },
      onWriteFailure: (error) => {
        throw error;
      },
    });
    running.push(shared);
    const fail = (projectId: string, provider: string, times = 5): void => {
      for (let failed = 0; failed < times; failed += 1) breakers.recordFailure(projectId, provider);
    };
    return { process, breakers, clock, fail, read: shared.read };
  }

  const stored = () =>
    database().query<{ provider: string; state: string }>('select provider, state from provider_breakers order by provider');
  const untilStored = (rows: readonly object[]) =>
    until(`${JSON.stringify(rows)} are stored`, async () => JSON.stringify(await stored()) === JSON.stringify(rows));

  test('reports the open breakers of all processes until they close', async () => {
    const [one, two] = [await startProcess(), await startProcess()];
    const [acme, other] = [newId(noon), newId(noon)];
    const closed = { state: 'closed', failures: 0, opened_at: null, retry_at: null };
    one.fail(acme, 'openai');
    two.fail(acme, 'azure', 3);
    await untilStored([{ provider: 'openai', state: 'open' }]);
    const open = { provider: 'openai', state: 'open', failures: 5, opened_at: '2026-11-20T12:00:00Z', retry_at: '2026-11-20T12:00:30Z' };
    expect(await one.read(acme, ['openai', 'azure'])).toEqual([open, { provider: 'azure', ...closed }]);
    expect(await two.read(acme, ['openai', 'azure'])).toEqual([open, { provider: 'azure', ...closed, failures: 3 }]);
    expect(await two.read(other, ['openai'])).toEqual([{ provider: 'openai', ...closed }]);
    // Reports don't affect routing, because each process routes only by its own breakers.
    expect(two.breakers.tryAcquire(acme, 'openai')).toBe(true);

    one.clock.move(31 * second);
    expect(one.breakers.tryAcquire(acme, 'openai')).toBe(true);
    await untilStored([{ provider: 'openai', state: 'half_open' }]);
    expect(await two.read(acme, ['openai'])).toMatchObject([{ state: 'half_open' }]);
    two.fail(acme, 'openai');
    expect(await two.read(acme, ['openai'])).toMatchObject([{ state: 'open' }]);
    await untilStored([
      { provider: 'openai', state: 'half_open' },
      { provider: 'openai', state: 'open' },
    ]);
    expect(await one.read(acme, ['openai'])).toMatchObject([{ state: 'open' }]);
    one.breakers.recordSuccess(acme, 'openai');
    one.breakers.recordSuccess(acme, 'openai');
    await untilStored([{ provider: 'openai', state: 'open' }]);
  });

  test("retries storing a breaker's state after a failed write", async () => {
    const failures: unknown[] = [];
    const process = newId(noon);
    await database().query('insert into processes (id, started_at, heartbeat_at) values ($1::uuid, now(), now())', [process]);
    const breakers = createBreakers(clockAt(noon), (projectId, provider) => shared.changed(projectId, provider));
    const failing = {
      ...database(),
      query: (...query: Parameters<Database['query']>) =>
        failures.length === 0 ? Promise.reject(new Error('the database is down')) : database().query(...query),
    } as Database;
    const shared = createSharedBreakers({
      ...{ database: failing, statusDatabase: database(), process, breakers, livenessTimeoutMs: 60_000 },
      onWriteFailure: (error) => void failures.push(error),
    });
    running.push(shared);
    const acme = newId(noon);
    for (let failed = 0; failed < 5; failed += 1) breakers.recordFailure(acme, 'mistral');
    await until('it is stored', async () => (await stored()).some(({ provider }) => provider === 'mistral'));
    expect(failures).toHaveLength(1);
  });

  test("doesn't report breakers of a dead process", async () => {
    const [dead, alive] = [await startProcess(), await startProcess()];
    const acme = newId(noon);
    dead.fail(acme, 'openai');
    await until('it is open', async () => (await alive.read(acme, ['openai']))[0]?.state === 'open');
    await database().query(`update processes set heartbeat_at = now() - interval '61 seconds' where id = $1::uuid`, [dead.process]);
    expect(await alive.read(acme, ['openai'])).toMatchObject([{ state: 'closed' }]);
    await database().query('delete from processes where id = $1::uuid', [dead.process]);
    alive.fail(acme, 'azure');
    await until('it is deleted', async () => !(await stored()).some(({ provider }) => provider === 'openai'));
  });
});
