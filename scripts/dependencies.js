/**
 * Runs `npm ci`, but only if the installed packages differ from package-lock.json.
 *
 * npm writes `node_modules/.package-lock.json` at the end of every complete install, so we compare the two files. This
 * works after a `git pull` (package-lock.json has changed), after a manual `npm install` (both have changed) and after
 * an interrupted install (the file is missing). Comparing modification times wouldn't work in all of these cases.
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
 * Installs the locked packages into `<root>/node_modules`. If two processes start in the same clone at the same time,
 * the second one waits for the first.
 * @param {string} root
 * @param {{ dev: boolean }} options set `dev` if development packages are needed too
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
 * Returns true if everything in `wanted` is installed with the same version, for this platform.
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
  // A copy of `node_modules` from another platform has binaries that don't run here.
  return complete && Object.values(installed.packages).every(({ os, cpu }) => allows(os, platform) && allows(cpu, arch));
}

/**
 * Checks a package's `os` or `cpu` field the way npm does. The field either lists the allowed names or, with a leading
 * `!`, the forbidden ones.
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
    // A missing or truncated lock file means that nothing is installed. If package-lock.json is broken, npm says so.
    if (error instanceof SyntaxError || hasCode(error, 'ENOENT')) return null;
    throw error;
  }
}
