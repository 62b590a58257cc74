/**
 * Decides which attempts carry the caller's `idempotency-key`. The key names one request body: a vendor that sees it with another body
 * rejects the call or returns the first response. A provider therefore gets the key with the first model that it is tried with, including
 * retries of that model, and not with further models, whose bodies differ. Providers do not share keys, so each may get it once.
 */
import type { Candidate } from '../../core/candidate.ts';

type Headers = Readonly<Record<string, string>>;

/** Returns a filter for the attempts of one call: the headers to send to `candidate`. */
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
