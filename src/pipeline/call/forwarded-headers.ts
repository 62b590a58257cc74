/** Decides which of the caller's headers a vendor gets. */
import type { Call, TextRoute } from '../../core/call.ts';
import { parseJson } from '../../core/json/narrow.ts';
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
 * is translated, the translation determines the API version. For a vendor that takes the beta flags in the body, the
 * header also contains those of the caller's body.
 */
export function forwardedHeadersFor(
  route: TextRoute,
  call: Pick<Call, 'route' | 'forwardedHeaders' | 'body' | 'spans'>,
  { betaFlags }: Pick<RequestFormat, 'betaFlags'>,
): ForwardedHeaders {
  const all = call.forwardedHeaders;
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

/** Adds the flags to what the caller learns about its request. */
export function withDroppedFlags(changes: RequestChanges | null, flags: readonly string[]): RequestChanges {
  const { dropped, adjusted } = changes ?? createChanges();
  return { dropped: new Set([...dropped, ...flags.map((flag) => `${betaHeader}.${flag}`)]), adjusted };
}
