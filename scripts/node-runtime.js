/**
 * Finds a Node that can run the program. If the one that's running is too old, we install the release in `.nvmrc` into
 * the cache directory. This is easy, because there are npm packages with Node's binary for each platform.
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
 * Returns the path of a Node that satisfies `engines` in package.json and can run TypeScript.
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
 * Installs Node into a temporary folder next to `home`, which we rename at the end. That way, nobody ever sees an
 * incomplete Node. If somebody else installs it at the same time, the first one wins.
 * @param {{ home: string, name: string, version: string }} options
 */
async function fetchNode({ home, name, version }) {
  await mkdir(dirname(home), { recursive: true });
  const temporary = await mkdtemp(`${home}.part-`);
  try {
    await installNode(temporary, name, version);
    const binary = binaryPath(temporary, name, process.platform);
    await promisify(execFile)(binary, ['--version']).catch((error) => {
      // npm may install a binary that doesn't run here, e.g. on systems with musl.
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
    // The release doesn't exist for some platforms, so accept any release with the same major version.
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
    // The folder exists without the binary, maybe because of a cleanup job.
    await rm(home, { recursive: true, force: true });
    await rename(temporary, home);
  }
}

/**
 * @param {string} platform
 * @param {string} arch
 */
export function packageName(platform, arch) {
  // The npm package `node` depends on these packages. Their names follow a pattern, except for Apple silicon.
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
