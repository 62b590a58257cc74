/**
 * Starts a benchmark's programs. The program that we measure has its own cores, and all other programs share the
 * remaining ones.
 */
import { execFileSync, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const startLimitMs = 120_000;
const stopLimitMs = 20_000;
/** This is enough for more than 10,000 streams, each of which needs two connections in the gateway. */
const openFiles = 40_000;

/** @typedef {{ pid: number, port: number, log: () => string, stop: () => Promise<void> }} Program */

/**
 * Moves this process, and all programs that it starts, away from the cores of the measured programs.
 * @param {number} measuredCores number of cores for the measured programs
 * @returns {{ isPinned: boolean, measured: string[] }} `measured` is the command prefix for measured programs. Without
 * `taskset` nothing is pinned
 */
export function pinCores(measuredCores) {
  const cores = availableParallelism();
  if (cores <= measuredCores) return { isPinned: false, measured: [] };
  try {
    execFileSync('taskset', ['--all-tasks', '--cpu-list', '--pid', `${measuredCores}-${cores - 1}`, String(process.pid)], {
      stdio: 'ignore',
    });
    return { isPinned: true, measured: ['taskset', '--cpu-list', `0-${measuredCores - 1}`] };
  } catch {
    return { isPinned: false, measured: [] };
  }
}

/** @param {string} signal */
function endBy(signal) {
  process.stderr.write(`ended by ${signal}\n`);
  process.exit(1);
}

/**
 * Creates the functions that start programs. Call `stopAll` at the end.
 * @param {string} folder receives the programs' output
 */
export function createProcesses(folder) {
  /** @type {import('node:child_process').ChildProcess[]} */
  const children = [];
  const killAll = () => {
    for (const child of children) if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
  };
  process.once('exit', killAll);
  // Don't use `once`, because a second signal would then kill us before we've killed the programs.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => endBy(signal));

  /** @param {import('node:child_process').ChildProcess} child */
  const stop = async (child) => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    const timer = setTimeout(() => child.kill('SIGKILL'), stopLimitMs);
    await ended;
    clearTimeout(timer);
  };

  return {
    /**
     * Starts a program and waits until it prints its address. The output goes to a file, because a pipe would wake us
     * up for each line.
     * @param {string} name
     * @param {string[]} command
     * @param {{ cwd?: string, env?: NodeJS.ProcessEnv, listens?: () => Promise<number | null> }} [options]
     * @returns {Promise<Program>}
     */
    async start(name, command, { cwd, env = {}, listens } = {}) {
      const logFile = join(folder, `${name.replaceAll(/[^\w-]/g, '-')}-${children.length}.log`);
      const output = openSync(logFile, 'a');
      // A stream takes two connections in the gateway, so try to raise the limit for open files.
      const shell = ['/bin/sh', '-c', `ulimit -n ${openFiles} 2>/dev/null; exec "$@"`, name];
      const [file = '', ...args] = [...shell, ...command];
      const child = spawn(file, args, { cwd, env: { ...process.env, ...env }, stdio: ['ignore', output, output] });
      closeSync(output);
      children.push(child);
      const log = () => readFileSync(logFile, 'utf8');
      const findPort = listens ?? (async () => Number(/http:\/\/127\.0\.0\.1:(\d+)/.exec(log())?.[1] ?? 0) || null);
      for (const limitAt = performance.now() + startLimitMs; performance.now() < limitAt && child.exitCode === null; await sleep(50)) {
        const port = await findPort();
        if (port !== null) return { pid: child.pid ?? 0, port, log, stop: () => stop(child) };
      }
      throw new Error(`${name} did not start:\n${log().slice(-3_000)}`);
    },
    /**
     * Starts a program in this folder that exchanges messages with us. Some Linux systems divide the CPU time among
     * sessions first, and priorities only count within a session. So we give each program its own session.
     * @param {string} name
     * @param {string[]} [args]
     */
    fork(name, args = []) {
      const child = fork(fileURLToPath(new URL(name, import.meta.url)), args, {
        serialization: 'advanced',
        detached: true,
        execArgv: ['--v8-pool-size=0'],
      });
      children.push(child);
      const stopping = new AbortController();
      child.once('exit', () => stopping.abort(new Error(`${name} exited`)));
      return {
        pid: child.pid ?? 0,
        /**
         * Sends a message to the program and returns its answer. If you pass no message, this only waits for the next
         * one from the program.
         * @param {object} [message]
         */
        async ask(message) {
          const answered = once(child, 'message', { signal: stopping.signal });
          if (message !== undefined) child.send(message);
          const [answer] = await answered;
          return answer;
        },
      };
    },
    async stopAll() {
      await Promise.all(children.map(stop));
      process.off('exit', killAll);
    },
  };
}
