/** Runs npm for the bootstrap. It prints nothing on success and one line on failure. */
import { spawn } from 'node:child_process';
import { basename } from 'node:path';

/** A failure that the user can fix. We print its message without a stack trace. */
export class BootstrapError extends Error {}

/** @param {string} text */
export function say(text) {
  // Use stderr, so that `gateway … | jq` only gets the output of the command.
  process.stderr.write(`gateway: ${text}\n`);
}

/**
 * Runs npm with `args` in `cwd`. Throws a {@link BootstrapError} with a one-line message if npm can't be started or
 * fails.
 * @param {string[]} args
 * @param {{ cwd: string }} options
 * @returns {Promise<void>}
 */
export async function runNpm(args, { cwd }) {
  const { command, leading, shell } = findNpm(process.env['npm_execpath'], process.platform);
  // We may have been started by a Node that is older than `engines` allows, and npm shouldn't refuse it or warn about
  // it.
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
 * npm passes its own path to scripts. Running that file with this Node doesn't need a shell on any platform. Yarn and
 * pnpm set the same variable, so we check the file's name.
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
 * Condenses npm's output to one line with its first error messages and the path of its log.
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
