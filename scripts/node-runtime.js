/**
 * Finds a Node version that can run the program. If the running one is too old, installs the release in `.nvmrc` into
 * the cache directory. There are npm packages that contain the Node binary for each platform.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { cacheDirectory } from './cache.js';
import { hasCode } from './file-lock.js';
import { BootstrapError, runNpm, say } from './npm.js';
import { satisfies } from './versions.js';

/**
 * Returns the path of a Node that can run TypeScript and satisfies `engines` in package.json.
 * @param {string} root
 * @returns {Promise<string>}
 */
export async function ensureNode(root) {
  const { engines } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));
  // Some distributions build Node without support for TypeScript.
  if (satisfies(process.versions.node, engines.node) && process.features.typescript) return process.execPath;

  const version = (await readFile(join(root, '.nvmrc'), 'utf8')).trim();
  const name = packageName(process.platform, process.arch);
  const home = join(cacheDirectory(), `node-${version}`);
  const binary = binaryPath(home, name, process.platform);
  if (!existsSync(binary)) {
    say(`Node ${process.versions.node} is older than ${engines.node}; fetching Node ${version} into the cache (once)`);
    await fetchNode({ home, name, version });
    say(`Node ${version} is ready`);
  }
  return binary;
}

/**
 * Installs into a temporary folder next to `home` and renames it afterwards, so that no process sees an incomplete
 * Node. If there are two installations at the same time, the first one wins.
 * @param {{ home: string, name: string, version: string }} options
 */
async function fetchNode({ home, name, version }) {
  await mkdir(dirname(home), { recursive: true });
  const temporary = await mkdtemp(`${home}.part-`);
  try {
    await installNode(temporary, name, version);
    const binary = binaryPath(temporary, name, process.platform);
    await promisify(execFile)(binary, ['--version']).catch((error) => {
      // npm can install packages that don't work on this system. For example, the binary doesn't run on musl.
      throw new BootstrapError(
        `the fetched Node ${version} does not run here (${error.message.split('\n', 1)[0]}); install Node 24 yourself`,
      );
    });
    await moveInto(home, temporary, binaryPath(home, name, process.platform));
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
}

/**
 * @param {string} prefix
 * @param {string} name
 * @param {string} version
 */
async function installNode(prefix, name, version) {
  const install = (/** @type {string} */ wanted) =>
    runNpm(['install', '--prefix', prefix, '--no-save', '--no-package-lock', '--ignore-scripts', `${name}@${wanted}`], { cwd: prefix });
  try {
    await install(version);
  } catch (error) {
    // Not every Node release is available for all platforms, so fall back to any release with the same major version.
    const major = version.split('.', 1).join('');
    if (!(error instanceof BootstrapError) || !/ETARGET|notarget/i.test(error.message)) throw error;
    await install(major);
  }
}

/**
 * @param {string} home
 * @param {string} temporary
 * @param {string} binary
 */
async function moveInto(home, temporary, binary) {
  try {
    await rename(temporary, home);
  } catch (error) {
    if (!hasCode(error, 'ENOTEMPTY') && !hasCode(error, 'EEXIST') && !hasCode(error, 'EPERM')) throw error;
    if (existsSync(binary)) return;
    // A cleanup job may have deleted the binary but left its folder behind.
    await rm(home, { recursive: true, force: true });
    await rename(temporary, home);
  }
}

/**
 * Returns the name of the npm package that contains the Node binary for a platform.
 * @param {string} platform
 * @param {string} arch
 */
export function packageName(platform, arch) {
  // These are the names of the packages that the npm package `node` depends on. Apple silicon is the only exception to
  // the pattern.
  const prefix = platform === 'darwin' && arch === 'arm64' ? 'node-bin' : 'node';
  return `${prefix}-${platform === 'win32' ? 'win' : platform}-${arch}`;
}

/**
 * @param {string} home
 * @param {string} name
 * @param {string} platform
 */
function binaryPath(home, name, platform) {
  return join(home, 'node_modules', name, 'bin', platform === 'win32' ? 'node.exe' : 'node');
}
