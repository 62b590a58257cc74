/**
 * Formats the text that `npm start` prints when the service is up, with everything that you need for a first call.
 */

import type { FirstSignIn } from '../app/first-access.ts';

export interface BannerFacts {
  readonly url: string;
  readonly origin: string;
  /** The secret of the first key, which is only known when the key has just been created. Null on later starts. */
  readonly firstKey: string | null;
  /** How the first person can sign in. Null if there already is an account. */
  readonly firstSignIn: FirstSignIn | null;
  readonly dataDir: string;
  /** Says how memory can be searched, e.g. `by text only: no embeddings are configured`. */
  readonly memorySearch: string;
  readonly demo: boolean;
}

export function formatBanner({ url, origin, firstKey, firstSignIn, dataDir, memorySearch, demo }: BannerFacts): string {
  const lines = ['', 'The gateway is ready.', '', `  Address         ${url}`];
  lines.push(`  Console         ${origin}/console`);
  if (firstSignIn?.kind === 'link') {
    lines.push(`  First sign-in   ${firstSignIn.url}`, '                  (creates your admin account; works once, within 24 hours)');
  } else if (firstSignIn) lines.push('  First sign-in   npx gateway sign-in-link --admin');
  if (firstKey !== null) lines.push(`  Virtual key     ${firstKey}`, '                  (project "default"; shown this once)');
  lines.push(`  Data directory  ${dataDir}`, `  Memory search   ${memorySearch}`);
  if (demo) {
    lines.push('', '  No vendor key is set, so the DEMO VENDOR responds: an echo on this machine, not a model.');
    lines.push('  Set OPENAI_API_KEY or ANTHROPIC_API_KEY, or write gateway.yaml, and start again.');
  }
  lines.push('', firstKey === null ? '  Make a key: npx gateway keys create --project default' : '  Try it:', '');
  if (firstKey !== null) lines.push(`  ${curlLine(url, firstKey)}`, '');
  return `${lines.join('\n')}\n`;
}

/** Formats a command that you can paste into any shell. */
function curlLine(url: string, key: string): string {
  const body = JSON.stringify({ model: 'standard', stream: true, messages: [{ role: 'user', content: 'Hello, gateway!' }] });
  return `curl -N ${url}/v1/chat/completions -H 'authorization: Bearer ${key}' -H 'content-type: application/json' -d '${body}'`;
}
