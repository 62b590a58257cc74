/** The user's cache directory, shared by all clones: where programs that were fetched are kept. The same as `scripts/cache.js` uses. */
import { homedir } from 'node:os';
import { join } from 'node:path';
import type { Environment } from './environment.ts';

export function cacheDirectory(env: Environment): string {
  const base = env.XDG_CACHE_HOME?.trim();
  return join(base ? base : join(homedir(), '.cache'), 'model-gateway');
}
