/** Decides which of the caller's headers a vendor gets. */
import type { Call, TextRoute } from '../../core/call.ts';
import type { Candidate } from '../../core/candidate.ts';
import { parseJson } from '../../core/json/parse.ts';
import type { BetaFlags, RequestFormat } from '../../core/request-format.ts';
import { createChanges, type RequestChanges } from '../../dialects/translate/request-changes.ts';

type Headers = Readonly<Record<string, string>>;

export interface ForwardedHeaders {
  readonly headers: Headers;
  /**
   * The flags of `anthropic-beta` that we dropped because the vendor doesn't know them, or null if it knows all of
   * them.
   */
  readonly droppedFlags: readonly string[] | null;
}

const betaHeader = 'anthropic-beta';

/**
 * Returns the caller's headers that we forward to a vendor. `route` is the route that we call at the vendor. We leave
 * out headers of the other dialect, and `anthropic-version` if the request is translated, because the translation
 * determines the version. If the vendor takes beta flags in the body, we add the flags in the caller's body to
 * `anthropic-beta`.
 */
export function forwardedHeadersFor(
  route: TextRoute,
  call: Pick<Call, 'route' | 'forwardedHeaders' | 'body' | 'spans'>,
  { betaFlags }: Pick<RequestFormat, 'betaFlags'>,
): ForwardedHeaders {
  const all = call.forwardedHeaders;
  if (betaFlags === null && Object.keys(all).length === 0) return { headers: all, droppedFlags: null };
  const isForwarded = (name: string): boolean => {
    if (name === 'anthropic-version') return route === 'messages' && call.route === 'messages';
    return !name.startsWith(route === 'messages' ? 'openai-' : 'anthropic-');
  };
  const names = Object.keys(all);
  const headers = names.every(isForwarded) ? all : Object.fromEntries(Object.entries(all).filter(([name]) => isForwarded(name)));
  if (betaFlags === null) return { headers, droppedFlags: null };
  const flags = [...(headers[betaHeader] ?? '').split(','), ...(betaFlags.isInBody && call.route === route ? flagsOfBody(call) : [])];
  const { sent, dropped } = selectFlags(flags, betaFlags);
  const { [betaHeader]: _flags, ...others } = headers;
  return {
    headers: sent.length > 0 ? { ...others, [betaHeader]: sent.join(',') } : others,
    droppedFlags: dropped.length > 0 ? dropped : null,
  };
}

/** Returns the flags in `anthropic_beta`, where callers of Bedrock put them. */
function flagsOfBody({ body, spans }: Pick<Call, 'body' | 'spans'>): readonly string[] {
  const member = spans.members.get('anthropic_beta');
  if (member?.kind !== 'array') return [];
  const flags = parseJson(body.toString('utf8', member.value.start, member.value.end));
  return Array.isArray(flags) ? flags.filter((flag) => typeof flag === 'string') : [];
}

function selectFlags(flags: readonly string[], { allowed, aliases }: BetaFlags): { readonly sent: string[]; readonly dropped: string[] } {
  const sent = new Set<string>();
  const dropped = new Set<string>();
  for (const flag of flags.map((part) => part.trim())) {
    if (flag === '') continue;
    const name = Object.hasOwn(aliases, flag) ? (aliases[flag] ?? flag) : flag;
    if (allowed === null || allowed.includes(name)) sent.add(name);
    else dropped.add(flag);
  }
  return { sent: [...sent], dropped: [...dropped] };
}

export function withDroppedFlags(changes: RequestChanges | null, flags: readonly string[]): RequestChanges {
  const { dropped, adjusted } = changes ?? createChanges();
  return { dropped: new Set([...dropped, ...flags.map((flag) => `${betaHeader}.${flag}`)]), adjusted };
}

/**
 * Returns a filter for the attempts of one call, which decides whether an attempt includes the caller's
 * `idempotency-key`. The key belongs to one particular body. If a vendor sees the key again with a different body, it
 * rejects the call or returns the first response. So we only send it with the first model that we try at a provider
 * (and its retries), because the bodies for other models differ. Providers don't share keys, so each of them can get
 * it.
 */
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
