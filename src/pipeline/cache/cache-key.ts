/** The key under which responses are cached: equal for calls that must get the same response. */
import { createHash } from 'node:crypto';
import type { Call, Candidate } from '../../core/call.ts';
import { omitMembers } from '../../core/json/omit.ts';

export interface CacheKeyInput {
  readonly call: Pick<Call, 'route' | 'body' | 'spans' | 'forwardedHeaders'>;
  readonly candidates: readonly Candidate[];
  /** Of the configuration that the candidates come from. */
  readonly revision: number;
}

/** Excluded from the key: the candidates identify the model, the others select the response format. */
const excludedMembers = ['model', 'stream', 'stream_options'];

/**
 * Equal only for calls of one project, in one dialect, to the same candidates in the same order, with bodies of the same bytes. Bodies are
 * compared as bytes, because a vendor may distinguish what `JSON.parse` does not (`1` and `1.0`, repeated keys).
 */
export function computeCacheKey(projectId: string, { call, candidates, revision }: CacheKeyInput): string {
  const { route, body, spans, forwardedHeaders } = call;
  // A model's traits change what it is sent; its price does not.
  const plan = candidates.map(({ price: _price, ...candidate }) => candidate);
  const { 'idempotency-key': _once, ...headers } = forwardedHeaders;
  const headerList = Object.entries(headers).sort(([a], [b]) => (a < b ? -1 : 1));
  // JSON text contains no line feed, so the first one separates the parameters from the body.
  const hash = createHash('sha256').update(`${JSON.stringify([projectId, route, revision, plan, headerList])}\n`);
  for (const part of omitMembers(body, spans, excludedMembers)) hash.update(part);
  return hash.digest('base64');
}
