import { homedir } from 'node:os';
import { join } from 'node:path';

/** Where fetched programs are kept: the user's cache, shared by all clones. */
export function cacheDirectory() {
  // The XDG specification: a relative path is to be ignored.
  const base = process.env['XDG_CACHE_HOME'];
  return join(base?.startsWith('/') ? base : join(homedir(), '.cache'), 'model-gateway');
}
