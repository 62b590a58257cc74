/** Runs npm for the bootstrap. Prints nothing if it succeeds, and a single line if it fails. */
import { spawn } from 'node:child_process';
import { basename } from 'node:path';

/** A failure that the user can fix. We print its message without a stack trace. */
export class BootstrapError extends Error {}

/** @param {string} text */
export function say(text) {
  // Standard error, so that `gateway … | jq` only sees the command's own output.
  process.stderr.write(`gateway: ${text}\n`);
}

/**
 * Runs npm with `args` in `cwd`. If it can't be started or fails, throws a {@link BootstrapError} with a one-line
 * message.
 * @param {string[]} args
 * @param {{ cwd: string, timeoutMs?: number }} options without `timeoutMs`, npm may take as long as it needs
 * @returns {Promise<void>}
 */
export async function runNpm(args, { cwd, timeoutMs }) {
  const { command, leading, shell } = findNpm(process.env['npm_execpath'], process.platform);
  // The running Node may be older than `engines` allows, but npm shouldn't refuse it or print warnings.
  const quiet = ['--no-audit', '--no-fund', '--no-progress', '--engine-strict=false', '--loglevel=error'];
  const child = spawn(command, [...leading, ...args, ...quiet], { cwd, shell, timeout: timeoutMs, stdio: ['ignore', 'pipe', 'pipe'] });
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
 * npm passes its own path to scripts. We can run that file with this Node, and don't need a shell on any platform. Yarn
 * and pnpm set the same variable, so check the name of the file.
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
 * Condenses npm's output to a line with its first error messages and the path of its log.
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
