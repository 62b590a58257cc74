/** Going on with the right Node: in this process when it is the right one, else as a child that lives and dies with this process. */
import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { ensureDependencies } from './dependencies.js';
import { ensureNode } from './node-runtime.js';
import { BootstrapError, say } from './npm.js';

/** The clone. */
export const root = dirname(dirname(fileURLToPath(import.meta.url)));

/**
 * Dependencies and Node; answers the Node to go on with. A failure is told in one line and ends the process with 1.
 * @param {{ dev: boolean }} options
 */
export async function prepare(options) {
  try {
    await ensureDependencies(root, options);
    return await ensureNode(root);
  } catch (error) {
    if (!(error instanceof BootstrapError)) throw error;
    say(error.message);
    return process.exit(1);
  }
}

/**
 * Runs `src/main.ts` with `args`, as if it had been called by itself.
 * @param {string[]} args
 */
export async function runMain(args) {
  const main = join(root, 'src', 'main.ts');
  const node = await prepare({ dev: false });
  if (node === process.execPath) {
    process.argv = [process.execPath, main, ...args];
    await import(pathToFileURL(main).href);
    return;
  }
  end(await runChild(node, [main, ...args]));
}

/**
 * Runs `node` with `args` to its end, with this terminal and this process's signals.
 *
 * The channel (`ipc`) carries nothing: it closes when this process dies, by -9 too, and so tells the child to stop. The variable
 * GATEWAY_BOOTSTRAP_IPC holds our pid, by which a child knows that the channel is ours, and a grandchild that inherited it, that it is not.
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
 * Every signal must reach the child exactly once, since the service takes a second one for "stop at once".
 *
 * Ctrl-C is sent by the terminal to its whole foreground group, the child too; so with a terminal SIGINT is only outlived here (the child
 * decides when to end, and we end after it), and without one it was meant for this process alone and is handed on. SIGTERM and SIGHUP
 * come from programs that know one pid, and are handed on always.
 *
 * @param {import('node:child_process').ChildProcess} child
 */
function forwardSignals(child) {
  const hasTerminal = [process.stdin, process.stdout, process.stderr].some((stream) => stream.isTTY);
  const handOn = (/** @type {NodeJS.Signals} */ signal) => {
    if (signal !== 'SIGINT' || !hasTerminal) child.kill(signal);
  };
  const signals = /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP']);
  for (const signal of signals) process.on(signal, handOn);
  return () => {
    for (const signal of signals) process.off(signal, handOn);
  };
}

/**
 * Ends this process the way the child ended.
 * @param {{ code: number | null, signal: NodeJS.Signals | null }} ending
 */
function end({ code, signal }) {
  if (signal === null) process.exit(code ?? 1);
  process.kill(process.pid, signal);
  // Signals that Node itself survives, and Windows.
  setTimeout(() => process.exit(128 + (constants.signals[signal] ?? 0)), 1_000);
}

/**
 * The child's environment: our own, its Node first in the path so that its children find the same.
 * @param {NodeJS.ProcessEnv} environment
 * @param {string} node
 * @param {number} pid
 * @returns {NodeJS.ProcessEnv}
 */
export function childEnvironment(environment, node, pid) {
  // Windows spells it Path.
  const pathName = Object.keys(environment).find((name) => name.toUpperCase() === 'PATH') ?? 'PATH';
  const path = [dirname(node), environment[pathName]].filter(Boolean).join(delimiter);
  return { ...environment, [pathName]: path, GATEWAY_BOOTSTRAP_IPC: String(pid) };
}
