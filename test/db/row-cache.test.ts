import { describe, expect, test } from '@jest/globals';
import { createRowCache, type RowCache } from '../../src/db/row-cache.ts';

interface Given {
  readonly cache: RowCache<string>;
  readonly rows: Map<string, string>;
  readonly reads: string[];
  down: boolean;
  now: number;
  /** Reads wait for it when set. */
  gate: Promise<void> | null;
}

function given(options: { maxRows?: number } = {}): Given {
  const rows = new Map<string, string>();
  const reads: string[] = [];
  const state: Given = {
    rows,
    reads,
    down: false,
    now: 0,
    gate: null,
    cache: createRowCache({
      ...options,
      clock: { now: () => state.now },
      async load(key) {
        reads.push(key);
        const row = rows.get(key) ?? null;
        if (state.gate) await state.gate;
        if (state.down) throw new Error('the store is down');
        return row;
      },
    }),
  };
  return state;
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('a row cache', () => {
  test('answers at once, without a promise, while a row is young', async () => {
    const state = given();
    state.rows.set('a', 'one');
    expect(await state.cache.get('a')).toBe('one');
    state.now = 9_999;
    expect(state.cache.get('a')).toBe('one');
    expect(state.reads).toEqual(['a']);
  });

  test('reads an older row again in the background, once, and serves the old one meanwhile', async () => {
    const state = given();
    state.rows.set('a', 'one');
    await state.cache.get('a');
    state.rows.set('a', 'two');
    state.now = 10_000;
    expect(state.cache.get('a')).toBe('one');
    expect(state.cache.get('a')).toBe('one');
    await settled();
    expect(state.cache.get('a')).toBe('two');
    expect(state.reads).toEqual(['a', 'a']);
  });

  test('has one read under way for a key, whoever asks', async () => {
    const state = given();
    state.rows.set('a', 'one');
    expect(await Promise.all([state.cache.get('a'), state.cache.get('a'), state.cache.get('a')])).toEqual(['one', 'one', 'one']);
    expect(state.reads).toEqual(['a']);
  });

  test('keeps the last known row in force for an hour of a store that is down, and asks it once a second', async () => {
    const state = given();
    state.rows.set('a', 'one');
    await state.cache.get('a');
    state.down = true;
    state.now = 3_599_999;
    for (let count = 0; count < 5; count += 1) {
      expect(state.cache.get('a')).toBe('one');
      await settled();
    }
    expect(state.reads.length).toBe(2);
    state.now = 3_600_000;
    await expect(state.cache.get('a')).rejects.toThrow('the store is down');
  });

  test('a dropped row is read before it is served, and not served when that fails', async () => {
    const state = given();
    state.rows.set('a', 'one');
    await state.cache.get('a');
    state.rows.set('a', 'two');
    state.cache.invalidate('a');
    expect(await state.cache.get('a')).toBe('two');
    state.cache.invalidate('a');
    state.down = true;
    await expect(state.cache.get('a')).rejects.toThrow('the store is down');
  });

  test('a drop during a read makes its result worthless, also for who waits for it', async () => {
    const state = given();
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

  test('after lost notifications every row is read again first, and stands if the store is down', async () => {
    const state = given();
    state.rows.set('a', 'one').set('b', 'one');
    await Promise.all([state.cache.get('a'), state.cache.get('b')]);
    state.rows.set('a', 'two');
    state.cache.invalidateAll();
    expect(await state.cache.get('a')).toBe('two');
    state.down = true;
    expect(await state.cache.get('b')).toBe('one');
    expect(state.cache.get('b')).toBe('one');
  });

  test('remembers that there is no row, until a notification or ten seconds', async () => {
    const state = given();
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

  test('is bounded, and a flood of keys that do not exist evicts no row', async () => {
    const state = given({ maxRows: 3 });
    state.rows.set('a', 'one');
    await state.cache.get('a');
    for (let count = 0; count < 100; count += 1) await state.cache.get(`made up ${count}`);
    expect(state.cache.get('a')).toBe('one');
    expect(state.cache.get('made up 99')).toBeNull();
    expect(state.cache.get('made up 0')).toBeInstanceOf(Promise);
  });

  test('a row that was deleted is gone after its next read', async () => {
    const state = given();
    state.rows.set('a', 'one');
    await state.cache.get('a');
    state.rows.delete('a');
    state.now = 20_000;
    state.cache.get('a');
    await settled();
    expect(state.cache.get('a')).toBeNull();
  });
});
