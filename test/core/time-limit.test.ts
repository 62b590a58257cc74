import { describe, expect, test } from '@jest/globals';
import { pause, raceAbort, untilAborted, withTimeout } from '../../src/core/time-limit.ts';

const never = new Promise<never>(() => undefined);

describe('withTimeout', () => {
  test('returns the result', async () => {
    await expect(withTimeout(Promise.resolve('done'), 60_000, () => 'late')).resolves.toBe('done');
  });

  test('withTimeout() rejects if the work fails', async () => {
    await expect(withTimeout(Promise.reject(new Error('broken')), 60_000, () => 'late')).rejects.toThrow('broken');
  });

  test('returns the fallback value after the timeout', async () => {
    await expect(withTimeout(never, 5, () => 'late')).resolves.toBe('late');
  });

  test("doesn't time out if the result arrived while the event loop was blocked", async () => {
    // Now the event loop runs timers before it looks for anything that has arrived.
    await new Promise((resolve) => setImmediate(resolve));
    const arrived = new Promise((resolve) => setImmediate(() => resolve('done')));
    const result = withTimeout(arrived, 20, () => 'late');
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 40);
    await expect(result).resolves.toBe('done');
  });

  test('rejects if the fallback throws', async () => {
    const onTimeout = (): never => {
      throw new Error('no response within 5 ms');
    };
    await expect(withTimeout(never, 5, onTimeout)).rejects.toThrow('no response within 5 ms');
  });

  test("doesn't cause an unhandled rejection if the work fails after the timeout", async () => {
    let fail: (error: Error) => void = () => undefined;
    const work = new Promise<string>((_resolve, reject) => {
      fail = reject;
    });
    await withTimeout(work, 1, () => 'late');
    fail(new Error('too late to matter'));
    await new Promise((resolve) => setImmediate(resolve));
  });
});

describe('raceAbort', () => {
  test('returns the result if it arrives before the abort', async () => {
    await expect(raceAbort(Promise.resolve(1), new AbortController().signal)).resolves.toBe(1);
  });

  test('rejects with the reason of the abort signal', async () => {
    const stopping = new AbortController();
    const result = raceAbort(never, stopping.signal);
    stopping.abort('stopped');
    await expect(result).rejects.toBe('stopped');
  });

  test('rejects immediately if the signal is already aborted', async () => {
    await expect(raceAbort(Promise.resolve(1), AbortSignal.abort('stopped'))).rejects.toBe('stopped');
  });
});

describe('untilAborted', () => {
  test('resolves on abort', async () => {
    const stopping = new AbortController();
    const aborted = untilAborted(stopping.signal);
    stopping.abort();
    await aborted;
  });

  test('resolves immediately if the signal is already aborted', async () => {
    await untilAborted(AbortSignal.abort());
  });
});

describe('pause', () => {
  test('pause() waits for the requested time', async () => {
    const startedAt = performance.now();
    await pause(20, new AbortController().signal);
    expect(performance.now() - startedAt).toBeGreaterThan(15);
  });

  test('pause() ends early if the signal is aborted', async () => {
    const stopping = new AbortController();
    const paused = pause(60_000, stopping.signal);
    stopping.abort();
    await paused;
  });
});
