/**
 * The directory in the user's cache where we keep downloads and installed programs. All clones of the repository share
 * it, and `scripts/cache.js` uses it too.
 */
import { homedir } from 'node:os';
import { join } from 'node:path';
import type { Environment } from './environment.ts';

export function cacheDirectory(env: Environment): string {
  // The XDG Base Directory Specification says to ignore relative paths.
  const base = env.XDG_CACHE_HOME?.trim();
  return join(base?.startsWith('/') ? base : join(homedir(), '.cache'), 'model-gateway');
}
