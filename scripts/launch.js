/** Runs the program under the right Node: in this process if its Node is new enough, otherwise in a child that ends with this process. */
import { spawn } from 'node:child_process';
import module from 'node:module';
import { constants } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { ensureDependencies } from './dependencies.js';
import { ensureNode } from './node-runtime.js';
import { BootstrapError, say } from './npm.js';

/** The clone. */
export const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** Where Node keeps compiled code: stripping types and compiling is half of the start of a process. */
const compileCache = join(root, 'node_modules', '.cache', 'model-gateway', 'compiled');

/**
 * Installs the dependencies and Node if necessary, and returns the path of the Node to use. A failure prints one line and exits with 1.
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

/** Ends the process with one line for a {@link BootstrapError}; rethrows others. @param {unknown} error @returns {never} */
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
 * Runs `node` with `args` to its end, with this terminal and this process's signals.
 *
 * The channel (`ipc`) carries no messages: it closes when this process dies, even by kill -9, and the child then stops. The variable
 * GATEWAY_BOOTSTRAP_IPC holds this process's pid: a child whose parent has it uses the channel, a grandchild ignores it.
 *
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
 * Every signal must reach the child exactly once: the service takes a second one as "stop immediately".
 *
 * The terminal sends Ctrl-C to its whole foreground group, which includes the child. So with a terminal this process ignores SIGINT and ends
 * after the child; without one it forwards SIGINT. SIGTERM and SIGHUP are sent to one pid and are always forwarded.
 *
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
 * Ends this process with the exit code or signal of the child.
 * @param {{ code: number | null, signal: NodeJS.Signals | null }} ending
 */
function end({ code, signal }) {
  if (signal === null) process.exit(code ?? 1);
  process.kill(process.pid, signal);
  // For signals that Node survives, and for Windows.
  setTimeout(() => process.exit(128 + (constants.signals[signal] ?? 0)), 1_000);
}

/**
 * The child's environment: a copy of this one, with the child's Node first in the path for its children, and the cache of compiled code.
 * @param {NodeJS.ProcessEnv} environment
 * @param {string} node
 * @param {number} pid
 * @returns {NodeJS.ProcessEnv}
 */
export function childEnvironment(environment, node, pid) {
  // Windows spells it Path.
  const pathName = Object.keys(environment).find((name) => name.toUpperCase() === 'PATH') ?? 'PATH';
  const path = [dirname(node), environment[pathName]].filter(Boolean).join(delimiter);
  return { NODE_COMPILE_CACHE: compileCache, ...environment, [pathName]: path, GATEWAY_BOOTSTRAP_IPC: String(pid) };
}
