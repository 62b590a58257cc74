/**
 * Runs the program with the right Node version. If the running Node is recent enough, it does so in this process. If
 * not, it uses a child process that stops when this process does.
 */
import { spawn } from 'node:child_process';
import module from 'node:module';
import { constants } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { ensureDependencies } from './dependencies.js';
import { ensureNode } from './node-runtime.js';
import { BootstrapError, say } from './npm.js';

export const root = dirname(dirname(fileURLToPath(import.meta.url)));

/**
 * Node's compile cache, which cuts startup time in half. Otherwise Node would strip types and compile everything again.
 */
const compileCache = join(root, 'node_modules', '.cache', 'model-gateway', 'compiled');

/**
 * Installs the dependencies and Node if necessary, and returns the path to Node. If this fails, prints a line and exits
 * with status 1.
 * @param {{ dev: boolean }} options
 */
export async function prepare(options) {
  try {
    await ensureDependencies(root, options);
    return await ensureNode(root);
  } catch (error) {
    return endWithError(error);
  }
}

/**
 * Prints the message of a {@link BootstrapError} and exits. Rethrows all other errors.
 * @param {unknown} error
 * @returns {never}
 */
export function endWithError(error) {
  if (!(error instanceof BootstrapError)) throw error;
  say(error.message);
  return process.exit(1);
}

/**
 * Runs `src/main.ts` with `args`, as if it had been started directly.
 * @param {string[]} args
 */
export async function runMain(args) {
  const main = join(root, 'src', 'main.ts');
  const node = await prepare({ dev: false });
  if (node === process.execPath) {
    module.enableCompileCache(compileCache);
    process.argv = [process.execPath, main, ...args];
    await import(pathToFileURL(main).href);
    return;
  }
  end(await runChild(node, [main, ...args]));
}

/**
 * Runs `node` with `args` until it exits. The child uses this terminal, and gets the signals of this process.
 *
 * There are no messages on the IPC channel. It closes when this process dies, even after a `kill -9`, and the child
 * then stops. GATEWAY_BOOTSTRAP_IPC contains the pid of this process, so that only a direct child uses the channel and
 * grandchildren ignore it.
 * @param {string} node
 * @param {string[]} args
 * @returns {Promise<{ code: number | null, signal: NodeJS.Signals | null }>}
 */
export async function runChild(node, args) {
  const child = spawn(node, args, {
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    env: childEnvironment(process.env, node, process.pid),
  });
  const stopForwarding = forwardSignals(child);
  try {
    return await new Promise((resolve, reject) => {
      child.once('error', reject);
      child.once('exit', (code, signal) => resolve({ code, signal }));
    });
  } finally {
    stopForwarding();
  }
}

/**
 * Every signal has to reach the child exactly once, because the service stops immediately if it gets a second one.
 *
 * The terminal sends Ctrl-C to its whole foreground process group, which includes the child. So if there is a terminal,
 * this process ignores SIGINT and exits after the child. Without a terminal, it forwards SIGINT. SIGTERM and SIGHUP are
 * sent to a single pid, so they are always forwarded.
 * @param {import('node:child_process').ChildProcess} child
 */
function forwardSignals(child) {
  const hasTerminal = [process.stdin, process.stdout, process.stderr].some((stream) => stream.isTTY);
  const forward = (/** @type {NodeJS.Signals} */ signal) => {
    if (signal !== 'SIGINT' || !hasTerminal) child.kill(signal);
  };
  const signals = /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP']);
  for (const signal of signals) process.on(signal, forward);
  return () => {
    for (const signal of signals) process.off(signal, forward);
  };
}

/**
 * Ends this process with the child's exit code or signal.
 * @param {{ code: number | null, signal: NodeJS.Signals | null }} ending
 */
function end({ code, signal }) {
  if (signal === null) process.exit(code ?? 1);
  process.kill(process.pid, signal);
  // Some signals don't end Node, and Windows doesn't support them. In these cases, exit with a status.
  setTimeout(() => process.exit(128 + (constants.signals[signal] ?? 0)), 1_000);
}

/**
 * Creates the environment for the child. It's the same as the environment of this process, except that it has the
 * compile cache, and the child's Node comes first in PATH, so that the child's own processes use it too.
 * @param {NodeJS.ProcessEnv} environment
 * @param {string} node
 * @param {number} pid
 * @returns {NodeJS.ProcessEnv}
 */
export function childEnvironment(environment, node, pid) {
  // On Windows the variable is called `Path`.
  const pathName = Object.keys(environment).find((name) => name.toUpperCase() === 'PATH') ?? 'PATH';
  const path = [dirname(node), environment[pathName]].filter(Boolean).join(delimiter);
  return { NODE_COMPILE_CACHE: compileCache, ...environment, [pathName]: path, GATEWAY_BOOTSTRAP_IPC: String(pid) };
}
