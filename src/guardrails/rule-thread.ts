/**
 * Matches content rules in a worker thread, so that the event loop serves other requests meanwhile. The thread starts with its first text and
 * does not keep the process alive when it is idle.
 */
import { Worker } from 'node:worker_threads';
import type { ContentRule } from './content-rule.ts';

/** A message to the thread, `rule-worker.ts`. */
export interface MatchRequest {
  readonly id: number;
  readonly rule: ContentRule;
  readonly texts: readonly string[];
}

export interface MatchResponse {
  readonly id: number;
  readonly isMatch: boolean;
}

const pending = new Map<number, PromiseWithResolvers<boolean>>();
let lastId = 0;
let current: Worker | null = null;

/** `matchesRule` in the thread, which serves one request after the other. Rejects when the thread fails. */
export function matchInThread(rule: ContentRule, texts: readonly string[]): Promise<boolean> {
  current ??= startWorker();
  lastId += 1;
  const request = Promise.withResolvers<boolean>();
  pending.set(lastId, request);
  current.ref();
  current.postMessage({ id: lastId, rule, texts } satisfies MatchRequest);
  return request.promise;
}

function startWorker(): Worker {
  const worker = new Worker(new URL('./rule-worker.ts', import.meta.url));
  worker.on('message', ({ id, isMatch }: MatchResponse) => {
    pending.get(id)?.resolve(isMatch);
    pending.delete(id);
    if (pending.size === 0) worker.unref();
  });
  /** The next request starts another thread. */
  const fail = (error: Error): void => {
    if (current !== worker) return;
    current = null;
    for (const { reject } of pending.values()) reject(error);
    pending.clear();
  };
  worker.on('error', fail);
  worker.on('exit', (code) => fail(new Error(`the thread that matches content rules ended with code ${code}`)));
  return worker;
}
