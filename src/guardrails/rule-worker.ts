/** The thread of `rule-thread.ts`. */
import { parentPort } from 'node:worker_threads';
import { matchesRule } from './match-rules.ts';
import type { MatchRequest, MatchResponse } from './rule-thread.ts';

parentPort?.on('message', ({ id, rule, texts }: MatchRequest) => {
  parentPort?.postMessage({ id, isMatch: matchesRule(rule, texts) } satisfies MatchResponse);
});
