import { homedir } from 'node:os';
import { join } from 'node:path';

/** Returns the directory for installed programs, which is in the user's cache so that all clones share it. */
export function cacheDirectory() {
  // The XDG Base Directory Specification says to ignore relative paths.
  const base = process.env['XDG_CACHE_HOME'];
  return join(base?.startsWith('/') ? base : join(homedir(), '.cache'), 'model-gateway');
}
