import { scanTokens } from './scan-tokens.ts';

/**
 * Returns true if an object at any depth of a JSON text has the same key twice. `value` has to be the parsed text, which
 * only contains the last member with that key.
 */
export function repeatsKey(text: string, value: unknown): boolean {
  return scanTokens(Buffer.from(text)).memberCount !== countMembers(value);
}

function countMembers(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  const values = Object.values(value);
  return values.reduce((count: number, member) => count + countMembers(member), Array.isArray(value) ? 0 : values.length);
}
