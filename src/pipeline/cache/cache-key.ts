/** Computes the key under which a response is cached. Calls that should get the same response have the same key. */
import { hash } from 'node:crypto';
import type { Call } from '../../core/call.ts';
import type { Candidate } from '../../core/candidate.ts';
import { digestParameters, parameterBytes } from '../../dialects/json/parameter-digest.ts';

export interface CacheKeyInput {
  readonly call: Pick<Call, 'route' | 'body' | 'spans' | 'forwardedHeaders' | 'addsOutputLimit' | 'maxOutputTokens'>;
  readonly candidates: readonly Candidate[];
  readonly revision: number;
}

/**
 * Two calls have the same key if they have the same project, dialect, configuration and forwarded headers, the same
 * candidates in the same order, and the same parameters. We compare the parameters byte by byte, because a vendor may
 * distinguish values that `JSON.parse` doesn't, e.g. `1` and `1.0`, or repeated keys.
 */
export function computeCacheKey(projectId: string, { call, candidates, revision }: CacheKeyInput): string {
  const { route, body, spans, forwardedHeaders } = call;
  const addedLimit = call.addsOutputLimit ? call.maxOutputTokens : null;
  const parameters = parametersOf({ projectId, route, revision, candidates, forwardedHeaders, addedLimit });
  const compared = body.length <= maxJoinedBytes ? parameterBytes(body, spans) : [Buffer.from(digestParameters(body, spans))];
  return hash('sha256', Buffer.concat([parameters, ...compared]), 'base64');
}

/**
 * Up to this size, it's faster to copy the parameters and the body into one buffer and hash that. For larger bodies,
 * the copying takes longer than it saves.
 */
const maxJoinedBytes = 16 * 1_024;

interface KeyParameters extends Pick<Call, 'route' | 'forwardedHeaders'>, Pick<CacheKeyInput, 'candidates' | 'revision'> {
  readonly projectId: string;
  /** The output limit that we add to the body before we send it, or null if we don't add one. */
  readonly addedLimit: number | null;
}

/**
 * Caches the encoded parameters. Many calls have the same candidates, because the planner reuses its plans
 * (`routing/plan.ts`). We don't use this for calls with forwarded headers, because these differ from call to call.
 */
const knownParameters = new WeakMap<readonly Candidate[], KeyParameters & { readonly bytes: Buffer }>();

function parametersOf(parameters: KeyParameters): Buffer {
  const { projectId, route, revision, candidates, forwardedHeaders, addedLimit } = parameters;
  if (Object.keys(forwardedHeaders).length > 0) return encodeParameters(parameters);
  const known = knownParameters.get(candidates);
  if (known?.projectId === projectId && known.route === route && known.revision === revision && known.addedLimit === addedLimit) {
    return known.bytes;
  }
  const bytes = encodeParameters(parameters);
  knownParameters.set(candidates, { ...parameters, bytes });
  return bytes;
}

function encodeParameters({ projectId, route, revision, candidates, forwardedHeaders, addedLimit }: KeyParameters): Buffer {
  const { 'idempotency-key': _once, ...headers } = forwardedHeaders;
  const headerList = Object.entries(headers).sort(([a], [b]) => (a < b ? -1 : 1));
  // Leave the price out of the key, because a price change doesn't affect the request that we send.
  const plan = JSON.stringify(candidates.map(({ price: _price, ...candidate }) => candidate));
  // A line feed can't occur in JSON text, so it safely separates the parameters from the body.
  return Buffer.from(`${JSON.stringify([projectId, route, revision, headerList, addedLimit])}${plan}\n`);
}
