/**
 * `npm ci` when what is installed is not what package-lock.json says, and not otherwise.
 *
 * npm leaves `node_modules/.package-lock.json` at the end of every complete install: what it put there. Comparing the two needs no mark of
 * our own, is right after a `git pull` (the lock changed), after `npm install` by hand (both changed), and after an install that was
 * killed half way (the file is missing), where comparing times of files is not.
 */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cacheDirectory } from './cache.js';
import { hasCode, withFileLock } from './file-lock.js';
import { runNpm, say } from './npm.js';

/**
 * @typedef {{ version?: string, resolved?: string, integrity?: string, dev?: boolean, optional?: boolean, devOptional?: boolean, os?: string[], cpu?: string[] }} LockedPackage
 * @typedef {{ packages: Record<string, LockedPackage> }} LockFile
 */

/**
 * Makes `<root>/node_modules` what the lock file says. Two starts in one clone: the second waits for the first, then finds it done.
 * @param {string} root
 * @param {{ dev: boolean }} options `dev`: are the packages for developing needed too?
 */
export async function ensureDependencies(root, { dev }) {
  if (await isInstalled(root, dev)) return;
  const clone = createHash('sha256').update(root).digest('hex').slice(0, 16);
  await withFileLock(join(cacheDirectory(), 'locks', `install-${clone}.lock`), {
    onWait: () => say('another process is installing the dependencies of this clone; waiting for it'),
    work: async () => {
      if (await isInstalled(root, dev)) return;
      const startedAt = Date.now();
      say('installing dependencies (npm ci); the first time this takes a minute');
      await runNpm(['ci', '--include=dev'], { cwd: root });
      say(`dependencies installed in ${Math.round((Date.now() - startedAt) / 1000)} s`);
    },
  });
}

/**
 * @param {string} root
 * @param {boolean} dev
 */
async function isInstalled(root, dev) {
  const [wanted, installed] = await Promise.all([
    readLock(join(root, 'package-lock.json')),
    readLock(join(root, 'node_modules', '.package-lock.json')),
  ]);
  return wanted !== null && installed !== null && matches(wanted, installed, { dev, platform: process.platform, arch: process.arch });
}

/**
 * Is all that `wanted` asks for there, in the same version, and made for this machine?
 * @param {LockFile} wanted
 * @param {LockFile} installed
 * @param {{ dev: boolean, platform: string, arch: string }} options
 */
export function matches(wanted, installed, { dev, platform, arch }) {
  const complete = Object.entries(wanted.packages).every(([path, locked]) => {
    if (path === '' || (!dev && (locked.dev || locked.devOptional))) return true;
    const found = installed.packages[path];
    if (found === undefined) return locked.optional === true || locked.devOptional === true;
    return found.version === locked.version && found.integrity === locked.integrity;
  });
  // A node_modules that was copied from another kind of machine has that machine's binaries.
  return complete && Object.values(installed.packages).every(({ os, cpu }) => allows(os, platform) && allows(cpu, arch));
}

/**
 * npm's lists of platforms: names that are allowed, or with `!` names that are not.
 * @param {string[] | undefined} names
 * @param {string} name
 */
function allows(names, name) {
  if (names === undefined) return true;
  if (names.includes(`!${name}`)) return false;
  return names.includes(name) || names.every((other) => other.startsWith('!'));
}

/**
 * @param {string} file
 * @returns {Promise<LockFile | null>}
 */
async function readLock(file) {
  try {
    return JSON.parse(await readFile(file, 'utf8'));
  } catch (error) {
    // Missing or cut off: not installed. npm itself complains well about a broken package-lock.json.
    if (error instanceof SyntaxError || hasCode(error, 'ENOENT')) return null;
    throw error;
  }
}
