/** Chooses the headers of the caller that a vendor gets. */
import type { Call, TextRoute } from '../../core/call.ts';

/**
 * Returns the caller's headers for a vendor that is called by `route`: without those of the other dialect. A translation determines the API
 * version itself.
 */
export function forwardedHeadersFor(route: TextRoute, call: Pick<Call, 'route' | 'forwardedHeaders'>): Readonly<Record<string, string>> {
  const { forwardedHeaders } = call;
  for (const name in forwardedHeaders)
    if (!isForwarded(name, route, call))
      return Object.fromEntries(Object.entries(forwardedHeaders).filter(([name]) => isForwarded(name, route, call)));
  return forwardedHeaders;
}

function isForwarded(name: string, route: TextRoute, call: Pick<Call, 'route'>): boolean {
  if (name === 'anthropic-version') return route === 'messages' && call.route === 'messages';
  return !name.startsWith(route === 'messages' ? 'openai-' : 'anthropic-');
}
