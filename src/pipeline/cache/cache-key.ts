/** What makes two calls the same question (decisions 7). */
import { createHash } from 'node:crypto';
import type { Call, Candidate } from '../../core/call.ts';
import { omitMembers } from '../../core/json/omit.ts';

export interface CacheKeyInput {
  readonly call: Pick<Call, 'route' | 'body' | 'spans' | 'forwardedHeaders'>;
  readonly candidates: readonly Candidate[];
  /** Of the configuration that the candidates are asked by. */
  readonly revision: number;
}

/** Members that do not change what is answered: the model is told by the candidates, the rest is the form. */
const excludedMembers = ['model', 'stream', 'stream_options'];

/**
 * Equal only for calls of one project, in one dialect, to the same candidates in the same order, with bodies of the same bytes. Bodies
 * are compared as bytes: what `JSON.parse` takes for equal (`1` and `1.0`, repeated keys) a vendor may not.
 */
export function computeCacheKey(projectId: string, { call, candidates, revision }: CacheKeyInput): string {
  const { route, body, spans, forwardedHeaders: passedHeaders } = call;
  // What a model takes changes what it is asked; its price does not.
  const plan = candidates.map(({ price: _price, ...candidate }) => candidate);
  const { 'idempotency-key': _once, ...headers } = passedHeaders;
  const headerList = Object.entries(headers).sort(([a], [b]) => (a < b ? -1 : 1));
  // JSON text holds no line feed: what stands before the first one cannot be mistaken for a body's beginning.
  const hash = createHash('sha256').update(`${JSON.stringify([projectId, route, revision, plan, headerList])}\n`);
  for (const part of omitMembers(body, spans, excludedMembers)) hash.update(part);
  return hash.digest('base64');
}
