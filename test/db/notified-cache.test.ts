import { expect, test } from '@jest/globals';
import type { Database } from '../../src/db/database.ts';
import { createNotifiedCache } from '../../src/db/notified-cache.ts';
import { describeDatabases } from './databases.ts';

const clock = { now: () => 0 };

async function waitUntil(isDone: () => boolean): Promise<void> {
  const giveUpAt = performance.now() + 60_000;
  while (!isDone()) {
    if (performance.now() > giveUpAt) throw new Error('the notification did not arrive');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

describeDatabases('a notified cache', (database) => {
  test('serves cached rows from memory and reloads them after a notification', async () => {
    const rows = new Map([['a', 'one']]);
    const loads: string[] = [];
    const changes: string[] = [];
    const cache = createNotifiedCache<string>({
      database: database(),
      channel: 'test_rows',
      clock,
      async load(key) {
        loads.push(key);
        return rows.get(key) ?? null;
      },
      onChange: (key) => changes.push(key),
    });
    await cache.start();
    await cache.start();
    expect(await cache.get('a')).toBe('one');
    expect(cache.get('a')).toBe('one');
    rows.set('a', 'two');
    await database().query('select pg_notify($1::text, $2::text)', ['test_rows', 'a']);
    await waitUntil(() => changes.length > 0);
    expect(await cache.get('a')).toBe('two');
    rows.set('a', 'three');
    cache.invalidate('a');
    expect(await cache.get('a')).toBe('three');
    expect(changes).toEqual(['a']);
    expect(loads).toEqual(['a', 'a', 'a']);
    await cache.stop();
    await cache.stop();
    await database().query('select pg_notify($1::text, $2::text)', ['test_rows', 'a']);
    expect(cache.get('a')).toBe('three');
  });
});

test('reloads all cached rows after the LISTEN connection was lost', async () => {
  let isDown = false;
  let onLost = (): void => undefined;
  const logged: unknown[] = [];
  const database = {
    async listen(_channel: string, _onPayload: (payload: string) => void, onReconnect?: () => void) {
      onLost = onReconnect ?? onLost;
      return { stop: async () => undefined };
    },
  } as unknown as Database;
  const cache = createNotifiedCache<string>({
    database,
    channel: 'test_rows',
    clock,
    async load() {
      if (isDown) throw new Error('connection refused');
      return 'one';
    },
    logger: { warn: (fields, message) => logged.push([fields.channel, message]) },
  });
  await cache.start();
  await cache.get('a');
  onLost();
  isDown = true;
  expect(await cache.get('a')).toBe('one');
  expect(logged).toEqual([['test_rows', 'failed to reload a cached row; using the last known one']]);
});
