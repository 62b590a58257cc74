/** Decides which of the caller's headers a vendor gets. */
import type { Call, TextRoute } from '../../core/call.ts';
import type { BetaFlags, RequestFormat } from '../../core/request-format.ts';
import { createChanges, type RequestChanges } from '../../dialects/translate/request-changes.ts';

export interface ForwardedHeaders {
  readonly headers: Readonly<Record<string, string>>;
  /** The flags of `anthropic-beta` that the vendor doesn't know. Null if it gets all of them. */
  readonly droppedFlags: readonly string[] | null;
}

const betaHeader = 'anthropic-beta';

/**
 * Returns the caller's headers for a vendor that we call on `route`, without those of the other dialect. If the request
 * is translated, the translation determines the API version.
 */
export function forwardedHeadersFor(
  route: TextRoute,
  call: Pick<Call, 'route' | 'forwardedHeaders'>,
  { betaFlags }: Pick<RequestFormat, 'betaFlags'>,
): ForwardedHeaders {
  const all = call.forwardedHeaders;
  const isForwarded = (name: string): boolean => {
    if (name === 'anthropic-version') return route === 'messages' && call.route === 'messages';
    return !name.startsWith(route === 'messages' ? 'openai-' : 'anthropic-');
  };
  const names = Object.keys(all);
  const headers = names.every(isForwarded) ? all : Object.fromEntries(Object.entries(all).filter(([name]) => isForwarded(name)));
  const flags = headers[betaHeader];
  if (betaFlags === null || flags === undefined) return { headers, droppedFlags: null };
  const { sent, dropped } = selectFlags(flags, betaFlags);
  const { [betaHeader]: _flags, ...others } = headers;
  return {
    headers: sent.length > 0 ? { ...others, [betaHeader]: sent.join(',') } : others,
    droppedFlags: dropped.length > 0 ? dropped : null,
  };
}

function selectFlags(text: string, { allowed, aliases }: BetaFlags): { readonly sent: string[]; readonly dropped: string[] } {
  const sent = new Set<string>();
  const dropped = new Set<string>();
  for (const flag of text.split(',').map((part) => part.trim())) {
    if (flag === '') continue;
    const name = Object.hasOwn(aliases, flag) ? (aliases[flag] ?? flag) : flag;
    if (allowed === null || allowed.includes(name)) sent.add(name);
    else dropped.add(flag);
  }
  return { sent: [...sent], dropped: [...dropped] };
}

/** Adds the flags to what the caller learns about its request. */
export function withDroppedFlags(changes: RequestChanges | null, flags: readonly string[]): RequestChanges {
  const { dropped, adjusted } = changes ?? createChanges();
  return { dropped: new Set([...dropped, ...flags.map((flag) => `${betaHeader}.${flag}`)]), adjusted };
}
