/** The user's cache directory for installed programs, shared by all clones. `scripts/cache.js` uses the same one. */
import { homedir } from 'node:os';
import { join } from 'node:path';
import type { Environment } from './environment.ts';

export function cacheDirectory(env: Environment): string {
  // We ignore relative paths, as the XDG Base Directory Specification demands.
  const base = env.XDG_CACHE_HOME?.trim();
  return join(base?.startsWith('/') ? base : join(homedir(), '.cache'), 'model-gateway');
}
