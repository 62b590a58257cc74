import { homedir } from 'node:os';
import { join } from 'node:path';

/** The directory of installed programs: in the user's cache, shared by all clones. */
export function cacheDirectory() {
  // The XDG Base Directory Specification says to ignore relative paths.
  const base = process.env['XDG_CACHE_HOME'];
  return join(base?.startsWith('/') ? base : join(homedir(), '.cache'), 'model-gateway');
}
