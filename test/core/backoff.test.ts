import { describe, expect, test } from '@jest/globals';
import { backoffDelays, backoffMs, retry } from '../../src/core/backoff.ts';

describe('backoffMs', () => {
  test('doubles the retry delay up to the maximum', () => {
    const policy = { initialMs: 500, maxMs: 3_000 };
    expect([1, 2, 3, 4, 5, 10_000].map((failures) => backoffMs(failures, policy))).toEqual([500, 1_000, 2_000, 3_000, 3_000, 3_000]);
  });

  test('supports growth factors other than two', () => {
    expect(backoffMs(3, { initialMs: 10, factor: 4, maxMs: 1_000 })).toBe(160);
  });

  test('random jitter stays within its range', () => {
    const delays = Array.from({ length: 1_000 }, () => backoffMs(1, { initialMs: 1_000, maxMs: 1_000, jitter: 0.1 }));
    expect(Math.min(...delays)).toBeGreaterThanOrEqual(900);
    expect(Math.max(...delays)).toBeLessThanOrEqual(1_100);
    expect(new Set(delays).size).toBeGreaterThan(1);
  });
});

test('backoffDelays stops after the last retry', () => {
  expect([...backoffDelays({ initialMs: 50, maxMs: 150 }, 3)]).toEqual([50, 100, 150]);
});

describe('retry', () => {
  /** Fails `times` times, then returns the number of calls. */
  function failing(times: number): () => Promise<number> {
    let calls = 0;
    return async () => {
      calls += 1;
      if (calls <= times) throw new Error(`failure ${calls}`);
      return calls;
    };
  }

  test('returns the first successful result', async () => {
    const retries: unknown[] = [];
    const onRetry = (error: unknown, delayMs: number): void => void retries.push([(error as Error).message, delayMs]);
    await expect(retry(failing(2), { delays: [0, 1, 2], onRetry })).resolves.toBe(3);
    expect(retries).toEqual([
      ['failure 1', 0],
      ['failure 2', 1],
    ]);
  });

  test('throws the last error after all retries have failed', async () => {
    await expect(retry(failing(9), { delays: [0, 0] })).rejects.toThrow('failure 3');
  });

  test("doesn't retry after an error that isn't retryable", async () => {
    await expect(retry(failing(9), { delays: [0, 0], isRetryable: () => false })).rejects.toThrow('failure 1');
  });

  test('rejects with the abort reason if it is aborted between retries', async () => {
    const stopping = new AbortController();
    const result = retry(failing(9), {
      delays: [60_000],
      signal: stopping.signal,
      onRetry: () => setTimeout(() => stopping.abort('stopped'), 5),
    });
    await expect(result).rejects.toBe('stopped');
  });

  test("doesn't make the first attempt if the signal is already aborted", async () => {
    await expect(retry(failing(0), { delays: [], signal: AbortSignal.abort('stopped') })).rejects.toBe('stopped');
  });
});
