/**
 * Matches content rules in a worker thread, so that the event loop can serve other requests. The thread starts with the
 * first request, and an idle thread doesn't keep the process alive. It handles one request at a time, so that we know
 * which request broke it. The next request then starts a new thread.
 */
import { Worker } from 'node:worker_threads';
import type { MatchRequest, MatchResult } from './match-rules.ts';

export interface ThreadResult extends MatchResult {
  readonly cpuMicros: number;
}

export interface RuleThreadOptions {
  readonly maxHeapMb: number;
  /** The time limit for a request to the thread. Most take less than a tenth of a second. */
  readonly maxMs: number;
}

export type RuleThread = ReturnType<typeof createRuleThread>;

/** `rule-worker.ts` caches compiled expressions up to a quarter of this heap. */
const defaults: RuleThreadOptions = { maxHeapMb: 192, maxMs: 10_000 };

export function createRuleThread({ maxHeapMb, maxMs } = defaults) {
  let worker: Worker | null = null;
  let pending: PromiseWithResolvers<ThreadResult> | null = null;
  let timer: NodeJS.Timeout | undefined;

  const end = (): PromiseWithResolvers<ThreadResult> | null => {
    const ended = pending;
    clearTimeout(timer);
    pending = null;
    return ended;
  };

  const start = (): Worker => {
    const started = new Worker(new URL('./rule-worker.ts', import.meta.url), { resourceLimits: { maxOldGenerationSizeMb: maxHeapMb } });
    started.on('message', (result: ThreadResult) => {
      started.unref();
      end()?.resolve(result);
    });
    const fail = (error: Error): void => {
      if (worker !== started) return;
      worker = null;
      started.unref();
      void started.terminate();
      end()?.reject(error);
    };
    started.on('error', fail);
    started.on('exit', (code) => fail(new Error(`the thread that matches content rules exited with code ${code}`)));
    return started;
  };

  return {
    /**
     * Matches rules in the thread. Only call this when the previous request has ended, because the thread handles one
     * at a time. Rejects if the thread runs out of memory or takes too long.
     */
    match(request: MatchRequest): Promise<ThreadResult> {
      worker ??= start();
      const current = worker;
      pending = Promise.withResolvers();
      timer = setTimeout(() => {
        current.emit('error', new Error(`no response within ${maxMs} ms`));
      }, maxMs);
      current.ref();
      current.postMessage(request);
      return pending.promise;
    },
  };
}
