/** Runs in the worker thread that `rule-thread.ts` starts. */
import { parentPort } from 'node:worker_threads';
import { createMatcher, type MatchRequest } from './match-rules.ts';
import type { ThreadResult } from './rule-thread.ts';

const maxExpressionBytes = 48 * 1024 * 1024;
/** After this time, we finish the current step and then give other projects their turn. */
const turnMs = 20;

const match = createMatcher(maxExpressionBytes);

parentPort?.on('message', (request: MatchRequest) => {
  const before = process.threadCpuUsage();
  const result = match(request, turnMs);
  const { user, system } = process.threadCpuUsage(before);
  parentPort?.postMessage({ ...result, cpuMicros: user + system } satisfies ThreadResult);
});
