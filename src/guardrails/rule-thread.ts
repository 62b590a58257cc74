/**
 * Matches content rules in a worker thread, so that the event loop serves other requests meanwhile. The thread starts with its first request and
 * does not keep the process alive when it is idle. It works on one request at a time, so that the request which breaks it is known; the next one
 * starts another thread.
 */
import { Worker } from 'node:worker_threads';
import type { MatchRequest, MatchResult } from './match-rules.ts';

export interface ThreadResult extends MatchResult {
  /** Processor time that the request took. */
  readonly cpuMicros: number;
}

export interface RuleThreadOptions {
  readonly maxHeapMb: number;
  /** A request normally takes less than a tenth of a second. */
  readonly maxMs: number;
}

export interface RuleThread {
  /** Call again only when the last request has ended. Rejects when the thread runs out of memory or does not respond. */
  match(request: MatchRequest): Promise<ThreadResult>;
}

/** The heap holds three times the expressions that `rule-worker.ts` keeps. */
const defaults: RuleThreadOptions = { maxHeapMb: 192, maxMs: 10_000 };

export function createRuleThread({ maxHeapMb, maxMs } = defaults): RuleThread {
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
    started.on('exit', (code) => fail(new Error(`the thread that matches content rules ended with code ${code}`)));
    return started;
  };

  return {
    match(request) {
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
