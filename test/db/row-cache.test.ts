import { describe, expect, test } from '@jest/globals';
import { createRowCache } from '../../src/db/row-cache.ts';

interface Setup {
  readonly cache: ReturnType<typeof createRowCache<string>>;
  readonly rows: Map<string, string>;
  readonly loads: string[];
  down: boolean;
  now: number;
  /** If set, loads wait for it. */
  gate: Promise<void> | null;
}

function setUp(options: { maxRows?: number } = {}): Setup {
  const rows = new Map<string, string>();
  const loads: string[] = [];
  const state: Setup = {
    rows,
    loads,
    down: false,
    now: 0,
    gate: null,
    cache: createRowCache({
      ...options,
      clock: { now: () => state.now },
      async load(key) {
        loads.push(key);
        const row = rows.get(key) ?? null;
        if (state.gate) await state.gate;
        if (state.down) throw new Error('the database is down');
        return row;
      },
    }),
  };
  return state;
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('a row cache', () => {
  test('returns a fresh cached row synchronously', async () => {
    const state = setUp();
    state.rows.set('a', 'one');
    expect(await state.cache.get('a')).toBe('one');
    state.now = 9_999;
    expect(state.cache.get('a')).toBe('one');
    expect(state.loads).toEqual(['a']);
  });

  test('serves a stale row while reloading it once in the background', async () => {
    const state = setUp();
    state.rows.set('a', 'one');
    await state.cache.get('a');
    state.rows.set('a', 'two');
    state.now = 10_000;
    expect(state.cache.get('a')).toBe('one');
    expect(state.cache.get('a')).toBe('one');
    await settled();
    expect(state.cache.get('a')).toBe('two');
    expect(state.loads).toEqual(['a', 'a']);
  });

  test('reloads a cached row if the clock was set back', async () => {
    const state = setUp();
    state.now = 3_600_000;
    state.rows.set('a', 'one');
    await state.cache.get('a');
    state.rows.set('a', 'two');
    state.now = 0;
    expect(state.cache.get('a')).toBe('one');
    await settled();
    expect(state.cache.get('a')).toBe('two');
  });

  test('concurrent callers share one load of the same row', async () => {
    const state = setUp();
    state.rows.set('a', 'one');
    expect(await Promise.all([state.cache.get('a'), state.cache.get('a'), state.cache.get('a')])).toEqual(['one', 'one', 'one']);
    expect(state.loads).toEqual(['a']);
  });

  test('serves the last known row for up to an hour during an outage', async () => {
    const state = setUp();
    state.rows.set('a', 'one');
    await state.cache.get('a');
    state.down = true;
    state.now = 3_599_999;
    for (let count = 0; count < 5; count += 1) {
      expect(state.cache.get('a')).toBe('one');
      await settled();
    }
    expect(state.loads.length).toBe(2);
    state.now = 3_600_000;
    await expect(state.cache.get('a')).rejects.toThrow('the database is down');
  });

  test('reloads an invalidated cached row before serving it', async () => {
    const state = setUp();
    state.rows.set('a', 'one');
    await state.cache.get('a');
    state.rows.set('a', 'two');
    state.cache.invalidate('a');
    expect(await state.cache.get('a')).toBe('two');
    state.cache.invalidate('a');
    state.down = true;
    await expect(state.cache.get('a')).rejects.toThrow('the database is down');
  });

  test('discards a row that was invalidated while it was loading', async () => {
    const state = setUp();
    let openGate = (): void => undefined;
    state.gate = new Promise((resolve) => {
      openGate = resolve;
    });
    state.rows.set('a', 'before');
    const waiting = state.cache.get('a');
    state.rows.set('a', 'after');
    state.cache.invalidate('a');
    openGate();
    expect(await waiting).toBe('after');
    expect(state.cache.get('a')).toBe('after');
  });

  test('reloads every cached row after invalidateAll()', async () => {
    const state = setUp();
    state.rows.set('a', 'one').set('b', 'one');
    await Promise.all([state.cache.get('a'), state.cache.get('b')]);
    state.rows.set('a', 'two');
    state.cache.invalidateAll();
    expect(await state.cache.get('a')).toBe('two');
    state.down = true;
    expect(await state.cache.get('b')).toBe('one');
    expect(state.cache.get('b')).toBe('one');
  });

  test('caches the absence of a row for no more than ten seconds', async () => {
    const state = setUp();
    expect(await state.cache.get('a')).toBeNull();
    expect(state.cache.get('a')).toBeNull();
    state.rows.set('a', 'one');
    state.cache.invalidate('a');
    expect(await state.cache.get('a')).toBe('one');
    expect(await state.cache.get('b')).toBeNull();
    state.rows.set('b', 'one');
    state.now = 10_000;
    expect(await state.cache.get('b')).toBe('one');
  });

  test("doesn't evict cached rows when many unknown keys are looked up", async () => {
    const state = setUp({ maxRows: 3 });
    state.rows.set('a', 'one');
    await state.cache.get('a');
    for (let count = 0; count < 100; count += 1) await state.cache.get(`made up ${count}`);
    expect(state.cache.get('a')).toBe('one');
    expect(state.cache.get('made up 99')).toBeNull();
    expect(state.cache.get('made up 0')).toBeInstanceOf(Promise);
  });

  test('drops a deleted row the next time it is reloaded', async () => {
    const state = setUp();
    state.rows.set('a', 'one');
    await state.cache.get('a');
    state.rows.delete('a');
    state.now = 20_000;
    state.cache.get('a');
    await settled();
    expect(state.cache.get('a')).toBeNull();
  });

  test('preloads 1,200 rows with three queries', async () => {
    const asked: number[] = [];
    let now = 0;
    const keys = Array.from({ length: 1_200 }, (_, n) => `key ${n}`);
    const own = createRowCache<string>({ load: async () => null, clock: { now: () => now } });
    const warm = (): Promise<void> =>
      own.warm(keys, async (wanted) => {
        asked.push(wanted.length);
        return new Map(wanted.map((key) => [key, `row of ${key}`]));
      });
    await warm();
    expect([asked, own.countRows(), own.get('key 7')]).toEqual([[500, 500, 200], 1_200, 'row of key 7']);
    now = 299_999;
    await warm();
    expect(asked).toHaveLength(3);
    now = 300_000;
    await warm();
    expect(asked).toHaveLength(6);
  });

  test('discards a preloaded row that changed while it was loading', async () => {
    const state = setUp();
    const { cache } = state;
    await cache.warm(['a', 'b', 'c'], async () => {
      cache.invalidate('a');
      state.rows.set('b', 'new');
      state.now = 1;
      await cache.get('b');
      return new Map([
        ['a', 'old'],
        ['b', 'old'],
        ['c', 'old'],
      ]);
    });
    expect([cache.countRows(), cache.get('b'), cache.get('c')]).toEqual([2, 'new', 'old']);
    await cache.warm(['d'], async () => {
      cache.invalidateAll();
      return new Map([['d', 'old']]);
    });
    expect(cache.countRows()).toBe(2);
  });
});
