/**
 * Decides which attempts carry the caller's `idempotency-key`. The key belongs to one request body. If a vendor sees it
 * again with another body, it rejects the call or returns the first response. So a provider gets the key with the first
 * model that we try there, including retries, but not with other models, because their bodies differ. Providers don't
 * share keys, so each of them may get it.
 */
import type { Candidate } from '../../core/candidate.ts';

type Headers = Readonly<Record<string, string>>;

/** Returns a filter for the attempts of one call. The filter returns the headers to send to `candidate`. */
export function createIdempotencyKeyFilter(): (candidate: Candidate, headers: Headers) => Headers {
  let firstModelByProvider: Map<string, string> | null = null;
  return ({ provider, id }, headers) => {
    if (headers['idempotency-key'] === undefined) return headers;
    firstModelByProvider ??= new Map();
    const first = firstModelByProvider.get(provider) ?? id;
    firstModelByProvider.set(provider, first);
    if (first === id) return headers;
    return Object.fromEntries(Object.entries(headers).filter(([name]) => name !== 'idempotency-key'));
  };
}
