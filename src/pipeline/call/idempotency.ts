/**
 * To whom the caller's `idempotency-key` goes. It names one request: a vendor that sees it again with another body refuses the call, or gives
 * back the answer of the first. So a provider gets it with the first model that it is asked for, also when that one is asked again after a
 * 429 (the body is the same), and not with further models of the chain, whose bodies are others. Providers are accounts of their own, which
 * do not know each other's keys: each may get it once.
 */
import type { Candidate } from '../../core/call.ts';

type Headers = Readonly<Record<string, string>>;

/** For one call: the headers for `candidate`, which is about to be asked. */
export function createIdempotencyKeyFilter(): (candidate: Candidate, headers: Headers) => Headers {
  const firstModelByProvider = new Map<string, string>();
  return ({ provider, id }, headers) => {
    if (headers['idempotency-key'] === undefined) return headers;
    const first = firstModelByProvider.get(provider) ?? id;
    firstModelByProvider.set(provider, first);
    if (first === id) return headers;
    return Object.fromEntries(Object.entries(headers).filter(([name]) => name !== 'idempotency-key'));
  };
}
