/**
 * Runs the program with the right version of Node. If we already have that, we just load it. Otherwise we start a child
 * process, which stops when this one does.
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
 * Node's compile cache. Without it, Node would have to strip the types and compile everything again, and the start
 * would take twice as long.
 */
const compileCache = join(root, 'node_modules', '.cache', 'model-gateway', 'compiled');

/**
 * Installs the dependencies and Node if they're missing, and returns the path of Node. In case of an error, prints a
 * line and exits with status 1.
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
 * Runs `src/main.ts` with `args`, as if the user had started it directly.
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
 * Runs `node` with `args` until it exits. The child uses our terminal and gets our signals.
 *
 * We also open an IPC channel, but don't send any messages over it. When this process dies, even after a `kill -9`, the
 * channel closes, and the child knows that it has to stop. GATEWAY_BOOTSTRAP_IPC contains our pid. If the child starts
 * processes of its own, they inherit the variable, but can tell from the pid that it isn't for them.
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
 * The child must get each signal exactly once, because the service stops immediately when there's a second one.
 *
 * On Ctrl-C, the terminal sends SIGINT to the whole foreground process group, i.e. to us and to the child. So if
 * there's a terminal, we ignore the signal and exit after the child. Without a terminal, we forward it. SIGTERM and
 * SIGHUP only go to a single pid, so we always forward them.
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
 * Ends this process in the same way as the child.
 * @param {{ code: number | null, signal: NodeJS.Signals | null }} ending
 */
function end({ code, signal }) {
  if (signal === null) process.exit(code ?? 1);
  process.kill(process.pid, signal);
  // On Windows, or if Node doesn't end on this signal, we're still here. Exit with a status.
  setTimeout(() => process.exit(128 + (constants.signals[signal] ?? 0)), 1_000);
}

/**
 * Creates the child's environment. It's a copy of ours, with the compile cache and with the child's Node first in PATH,
 * so that programs that the child starts find the same Node.
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
