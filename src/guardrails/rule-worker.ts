/** The code that runs in the worker thread for content rules (see `rule-thread.ts`). */
import { parentPort } from 'node:worker_threads';
import { createMatcher, type MatchRequest } from './match-rules.ts';
import type { ThreadResult } from './rule-thread.ts';

const maxExpressionBytes = 48 * 1024 * 1024;
/**
 * How long the thread works on a request before another project gets its turn. It always finishes the current step, so
 * this can take a little longer.
 */
const turnMs = 20;

const match = createMatcher(maxExpressionBytes);

parentPort?.on('message', (request: MatchRequest) => {
  const before = process.threadCpuUsage();
  const result = match(request, turnMs);
  const { user, system } = process.threadCpuUsage(before);
  parentPort?.postMessage({ ...result, cpuMicros: user + system } satisfies ThreadResult);
});
