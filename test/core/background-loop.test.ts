import { afterEach, expect, test } from '@jest/globals';
import { type BackgroundLoop, type BackgroundLoopOptions, createBackgroundLoop, type NextRun } from '../../src/core/background-loop.ts';

const loops: BackgroundLoop[] = [];

afterEach(async () => {
  for (const loop of loops.splice(0)) await loop.stop();
});

interface Run {
  readonly signal: AbortSignal;
  finish(next?: NextRun): void;
  fail(error?: Error): void;
}

/** A loop whose runs end when the test says so. */
function createLoop(options: Partial<BackgroundLoopOptions> = {}) {
  const runs: Run[] = [];
  const events: string[] = [];
  const waiting: (() => void)[] = [];
  const loop = createBackgroundLoop({
    run: (signal) =>
      new Promise<NextRun>((resolve, reject) => {
        runs.push({ signal, finish: (next = 'idle') => resolve(next), fail: (error = new Error('down')) => reject(error) });
        signal.addEventListener('abort', () => resolve('idle'));
        for (const begun of waiting.splice(0)) begun();
      }),
    intervalMs: null,
    onFirstFailure: (error) => events.push(`failed: ${(error as Error).message}`),
    onFailure: (_error, failures) => events.push(`failure ${failures}`),
    onRecovered: () => events.push('recovered'),
    ...options,
  });
  loops.push(loop);
  return {
    loop,
    runs,
    events,
    /** Resolves with run number `count` (from 1) once it has started. */
    async run(count: number): Promise<Run> {
      while (runs.length < count) await new Promise<void>((resolve) => waiting.push(resolve));
      const run = runs[count - 1];
      if (!run) throw new Error('no such run');
      return run;
    },
  };
}

const pass = (ms = 30): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

test('a background loop runs immediately on start and then at its interval', async () => {
  const { loop, run } = createLoop({ intervalMs: 20 });
  loop.start();
  const startedAt = performance.now();
  (await run(1)).finish();
  (await run(2)).finish();
  expect(performance.now() - startedAt).toBeGreaterThan(15);
  (await run(3)).finish();
});

test('a background loop without an interval stays idle until it is woken', async () => {
  const { loop, runs, run } = createLoop();
  loop.start();
  (await run(1)).finish('idle');
  await pass();
  expect(runs).toHaveLength(1);
  loop.wake();
  await run(2);
});

test('runs again immediately or after a delay if the previous run requested it', async () => {
  const { loop, run } = createLoop();
  loop.start();
  (await run(1)).finish('again');
  (await run(2)).finish(20);
  const finishedAt = performance.now();
  await run(3);
  expect(performance.now() - finishedAt).toBeGreaterThan(15);
});

test('coalesces several wake-ups into one run at the earliest requested time', async () => {
  const { loop, runs, run } = createLoop();
  loop.wake(60_000);
  loop.wake(5);
  loop.wake(60_000);
  loop.wake(5);
  (await run(1)).finish();
  await pass();
  expect(runs).toHaveLength(1);
});

test('a background loop never runs twice at once, and runs again if it is woken during a run', async () => {
  const { loop, runs, run } = createLoop();
  loop.start();
  const first = await run(1);
  loop.wake();
  await pass();
  expect(runs).toHaveLength(1);
  first.finish('idle');
  await run(2);
});

test('runNow waits for the run in progress instead of starting another', async () => {
  const { loop, runs, run } = createLoop();
  loop.start();
  const first = await run(1);
  const joined = loop.runNow();
  first.finish();
  await joined;
  expect(runs).toHaveLength(1);
});

test('runNow rejects if the run it has started fails', async () => {
  const { loop, runs, events, run } = createLoop({ intervalMs: 1 });
  const result = loop.runNow();
  (await run(1)).fail(new Error('away'));
  await expect(result).rejects.toThrow('away');
  expect(events).toEqual(['failed: away', 'failure 1']);
  await pass();
  expect(runs).toHaveLength(1);
});

test('backs off after failed runs and reports each outage once', async () => {
  const { loop, events, run } = createLoop({ backoff: { initialMs: 10, maxMs: 40 } });
  loop.start();
  (await run(1)).fail();
  const failedAt = performance.now();
  (await run(2)).fail();
  expect(loop.isFailing).toBe(true);
  (await run(3)).finish('again');
  expect(performance.now() - failedAt).toBeGreaterThan(25);
  (await run(4)).fail();
  await run(5);
  expect(events).toEqual(['failed: down', 'failure 1', 'failure 2', 'recovered', 'failed: down', 'failure 1']);
});

test('retries a failed run at the next interval if there is no backoff', async () => {
  const { loop, run } = createLoop({ intervalMs: 5 });
  loop.start();
  (await run(1)).fail();
  (await run(2)).finish();
  await loop.idle();
  expect(loop.isFailing).toBe(false);
});

test('ends the backoff early when the loop is woken', async () => {
  const { loop, run } = createLoop({ backoff: { initialMs: 60_000, maxMs: 60_000 } });
  loop.start();
  (await run(1)).fail();
  await loop.idle();
  loop.wake();
  await run(2);
});

test('treats a synchronous exception as a failed run', async () => {
  const { loop, events } = createLoop({
    run: () => {
      throw new Error('bug');
    },
  });
  await expect(loop.runNow()).rejects.toThrow('bug');
  expect(events).toEqual(['failed: bug', 'failure 1']);
});

test("stop() aborts the run's signal and waits for the run to end", async () => {
  const events: string[] = [];
  const { loop } = createLoop({
    async run(signal) {
      await pass(20);
      events.push(`aborted: ${signal.aborted}`);
      throw new Error('stopped');
    },
    onFirstFailure: () => events.push('reported'),
  });
  loop.start();
  await pass(1);
  await loop.stop();
  expect(events).toEqual(['aborted: true']);
});

test("doesn't run after stop() until it is started again", async () => {
  const { loop, runs, run } = createLoop({ intervalMs: 5 });
  loop.start();
  (await run(1)).finish();
  await loop.idle();
  await loop.stop();
  loop.wake();
  await loop.runNow();
  await pass();
  expect(runs).toHaveLength(1);
  loop.start();
  expect((await run(2)).signal.aborted).toBe(false);
});

test('runs again if the loop is restarted while its last run is finishing', async () => {
  const { loop, run } = createLoop();
  loop.start();
  await run(1);
  void loop.stop();
  loop.start();
  await run(2);
});
