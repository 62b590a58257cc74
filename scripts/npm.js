/**
 * Runs npm for the bootstrap. Nothing is printed if it succeeds. If it fails, the output is condensed into a single
 * line.
 */
import { spawn } from 'node:child_process';
import { basename } from 'node:path';

/** An error that the user can fix. It's printed without a stack trace. */
export class BootstrapError extends Error {}

/** @param {string} text */
export function say(text) {
  // Print to standard error, so that this isn't part of the output in a pipe such as `gateway … | jq`.
  process.stderr.write(`gateway: ${text}\n`);
}

/**
 * Runs npm with `args` in `cwd`. If that fails or npm can't be started, throws a {@link BootstrapError} with a message
 * of one line.
 * @param {string[]} args
 * @param {{ cwd: string, timeoutMs?: number }} options without `timeoutMs`, npm may take as long as it needs
 * @returns {Promise<void>}
 */
export async function runNpm(args, { cwd, timeoutMs }) {
  const { command, leading, shell } = findNpm(process.env['npm_execpath'], process.platform);
  // This Node may be older than `engines` allows, which would make npm refuse to run or print warnings.
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
 * Scripts get the path of npm in a variable. We can run that file with this Node on any platform, without needing a
 * shell. The file's name tells us that it's really npm, because Yarn and pnpm set the same variable.
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
 * Turns npm's output into a single line. It contains the first error messages and the path of the log.
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
