/** The key under which responses are cached: equal for calls that must get the same response. */
import { hash } from 'node:crypto';
import type { Call } from '../../core/call.ts';
import type { Candidate } from '../../core/candidate.ts';
import { digestParameters, parameterBytes } from '../../dialects/json/parameter-digest.ts';

export interface CacheKeyInput {
  readonly call: Pick<Call, 'route' | 'body' | 'spans' | 'forwardedHeaders' | 'addsOutputLimit' | 'maxOutputTokens'>;
  readonly candidates: readonly Candidate[];
  /** Of the configuration that the candidates come from. */
  readonly revision: number;
}

/**
 * Equal only for calls of one project, in one dialect, to the same candidates in the same order, with bodies of the same bytes. Bodies are
 * compared as bytes, because a vendor may distinguish what `JSON.parse` does not (`1` and `1.0`, repeated keys).
 */
export function computeCacheKey(projectId: string, { call, candidates, revision }: CacheKeyInput): string {
  const { route, body, spans, forwardedHeaders } = call;
  const addedLimit = call.addsOutputLimit ? call.maxOutputTokens : null;
  const parameters = parametersOf({ projectId, route, revision, candidates, forwardedHeaders, addedLimit });
  const compared = body.length <= maxJoinedBytes ? parameterBytes(body, spans) : [Buffer.from(digestParameters(body, spans))];
  return hash('sha256', Buffer.concat([parameters, ...compared]), 'base64');
}

/** One hash of joined bytes takes less than a digest of the parts, unless there are many bytes to copy. */
const maxJoinedBytes = 16 * 1_024;

interface KeyParameters extends Pick<Call, 'route' | 'forwardedHeaders'>, Pick<CacheKeyInput, 'candidates' | 'revision'> {
  readonly projectId: string;
  /** The output limit that we add to the vendor's body, or null if we don't add one. */
  readonly addedLimit: number | null;
}

/** Plans are kept between calls (`routing/plan.ts`), so the parameters of calls without headers are too. */
const knownParameters = new WeakMap<readonly Candidate[], KeyParameters & { readonly bytes: Buffer }>();

function parametersOf(of: KeyParameters): Buffer {
  const { projectId, route, revision, candidates, forwardedHeaders, addedLimit } = of;
  if (Object.keys(forwardedHeaders).length > 0) return encodeParameters(of);
  const known = knownParameters.get(candidates);
  if (known?.projectId === projectId && known.route === route && known.revision === revision && known.addedLimit === addedLimit) {
    return known.bytes;
  }
  const bytes = encodeParameters(of);
  knownParameters.set(candidates, { ...of, bytes });
  return bytes;
}

function encodeParameters({ projectId, route, revision, candidates, forwardedHeaders, addedLimit }: KeyParameters): Buffer {
  const { 'idempotency-key': _once, ...headers } = forwardedHeaders;
  const headerList = Object.entries(headers).sort(([a], [b]) => (a < b ? -1 : 1));
  // A model's traits change what it is sent; its price does not.
  const plan = JSON.stringify(candidates.map(({ price: _price, ...candidate }) => candidate));
  // JSON text contains no line feed, so the first one separates the parameters from the body.
  return Buffer.from(`${JSON.stringify([projectId, route, revision, headerList, addedLimit])}${plan}\n`);
}
