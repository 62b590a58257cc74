/** The text that `npm start` prints once the service is up: everything needed for a first call. */

export interface BannerFacts {
  readonly url: string;
  /** Secret of the key created at the first start. Null at later starts: it cannot be shown again. */
  readonly firstKey: string | null;
  readonly dataDir: string;
  readonly demo: boolean;
}

export function formatBanner({ url, firstKey, dataDir, demo }: BannerFacts): string {
  const lines = ['', 'The gateway is ready.', '', `  Address         ${url}`];
  if (firstKey !== null) lines.push(`  Virtual key     ${firstKey}`, '                  (project "default"; shown this once)');
  lines.push(`  Data directory  ${dataDir}`);
  if (demo) {
    lines.push('', '  No vendor key is set, so the DEMO VENDOR responds: an echo on this machine, not a model.');
    lines.push('  Set OPENAI_API_KEY or ANTHROPIC_API_KEY, or write gateway.yaml, and start again.');
  }
  lines.push('', firstKey === null ? '  Make a key: npx gateway keys create --project default' : '  Try it:', '');
  if (firstKey !== null) lines.push(`  ${curlLine(url, firstKey)}`, '');
  return `${lines.join('\n')}\n`;
}

/** One line, so that it can be pasted into any shell. */
function curlLine(url: string, key: string): string {
  const body = JSON.stringify({ model: 'standard', stream: true, messages: [{ role: 'user', content: 'Hello, gateway!' }] });
  return `curl -N ${url}/v1/chat/completions -H 'authorization: Bearer ${key}' -H 'content-type: application/json' -d '${body}'`;
}
