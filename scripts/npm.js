/** Running npm from the bootstrap: quiet while it works, one line when it does not. */
import { spawn } from 'node:child_process';
import { basename } from 'node:path';

/** A failure that the user can act on: its message is shown as it is, without a stack. */
export class BootstrapError extends Error {}

/** @param {string} text */
export function say(text) {
  // stderr, so that `gateway … | jq` gets the answer only.
  process.stderr.write(`gateway: ${text}\n`);
}

/**
 * Runs npm with `args` in `cwd` to its end. Throws a {@link BootstrapError} of one line when it cannot be run or fails.
 * @param {string[]} args
 * @param {{ cwd: string }} options
 * @returns {Promise<void>}
 */
export async function runNpm(args, { cwd }) {
  const { command, leading, shell } = findNpm(process.env['npm_execpath'], process.platform);
  // `engine-strict` and `loglevel`: the Node that starts the bootstrap may be older than `engines`, and that is fine here.
  const quiet = ['--no-audit', '--no-fund', '--no-progress', '--engine-strict=false', '--loglevel=error'];
  const child = spawn(command, [...leading, ...args, ...quiet], { cwd, shell, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  const keep = (/** @type {Buffer} */ chunk) => {
    output = (output + chunk.toString()).slice(-64_000);
  };
  child.stdout.on('data', keep);
  child.stderr.on('data', keep);
  const code = await new Promise((resolve, reject) => {
    child.once('error', (error) => reject(new BootstrapError(`npm could not be run: ${error.message}`)));
    child.once('close', (exitCode, signal) => resolve(exitCode ?? signal));
  });
  if (code !== 0) throw new BootstrapError(`npm ${args[0]} failed (${code}): ${summarize(output)}`);
}

/**
 * npm tells its scripts where it lives; that file run by this Node needs no shell on any platform. Yarn and pnpm set the same variable.
 * @param {string | undefined} execPath
 * @param {NodeJS.Platform} platform
 * @returns {{ command: string, leading: string[], shell: boolean }}
 */
export function findNpm(execPath, platform) {
  if (execPath !== undefined && basename(execPath).startsWith('npm-cli.')) {
    return { command: process.execPath, leading: [execPath], shell: false };
  }
  return { command: 'npm', leading: [], shell: platform === 'win32' };
}

/**
 * What npm complained about, in one line: its first error lines without its marks, the address of its log last.
 * @param {string} output
 */
export function summarize(output) {
  const lines = output
    .split('\n')
    .map((line) => line.replace(/^npm (error|ERR!)\s?/, '').trim())
    .filter((line) => line !== '');
  const isLog = (/** @type {string} */ line) => line.startsWith('A complete log of this run');
  const reason = lines.filter((line) => !isLog(line)).slice(0, 4);
  return [...reason, ...lines.filter(isLog)].join('; ') || 'it printed nothing';
}
