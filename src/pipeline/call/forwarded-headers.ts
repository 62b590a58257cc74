/** Decides which of the caller's headers a vendor gets. */
import type { Call, TextRoute } from '../../core/call.ts';

/**
 * Returns the caller's headers for a vendor that we call on `route`, without those of the other dialect. If the request
 * is translated, the translation determines the API version.
 */
export function forwardedHeadersFor(route: TextRoute, call: Pick<Call, 'route' | 'forwardedHeaders'>): Readonly<Record<string, string>> {
  const { forwardedHeaders } = call;
  if (Object.keys(forwardedHeaders).every((name) => isForwarded(name, route, call))) return forwardedHeaders;
  return Object.fromEntries(Object.entries(forwardedHeaders).filter(([name]) => isForwarded(name, route, call)));
}

function isForwarded(name: string, route: TextRoute, call: Pick<Call, 'route'>): boolean {
  if (name === 'anthropic-version') return route === 'messages' && call.route === 'messages';
  return !name.startsWith(route === 'messages' ? 'openai-' : 'anthropic-');
}
