import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { request } from 'undici';
import { root } from './launch.js';

export const adminToken = 'token-for-measurements';
/** On a busy machine, it can take minutes until a program listens. */
const startTimeoutMs = 600_000;

/** @typedef {{ url: string, pid: number, stderr: () => string }} Program */

/** Creates the functions that start programs. Call `stopAll` at the end. */
export function createPrograms() {
  /** @type {import('node:child_process').ChildProcess[]} */
  const children = [];
  // Stop the programs even if the script crashes.
  process.once('exit', () => {
    for (const child of children) child.kill('SIGTERM');
  });
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1));
  return {
    /**
     * Starts the gateway with this command, and waits until it prints its address.
     * @param {'start'} command
     * @param {{ env?: NodeJS.ProcessEnv, flags?: string[], cwd?: string }} options `flags` are passed to Node, and
     * `cwd` can be another checkout
     * @returns {Promise<Program>}
     */
    async start(command, { env = {}, flags = [], cwd = root }) {
      const own = {
        ...{ PORT: '0', HOST: '127.0.0.1', GATEWAY_TEMPORAL: 'off', GATEWAY_LOCAL_EMBEDDER: 'off', GATEWAY_ADMIN_TOKEN: adminToken },
        // The program stops when its IPC channel closes, which happens if this process dies, even after a `kill -9`.
        GATEWAY_BOOTSTRAP_IPC: String(process.pid),
      };
      const child = spawn(process.execPath, [...flags, 'src/main.ts', command], {
        cwd,
        env: { ...process.env, ...own, ...env },
        stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      });
      children.push(child);
      let output = '';
      let stderr = '';
      child.stdout?.setEncoding('utf8').on('data', (text) => {
        if (output.length < 10_000) output += text;
      });
      child.stderr?.setEncoding('utf8').on('data', (text) => {
        stderr = (stderr + text).slice(-10_000);
      });
      for (const limitAt = performance.now() + startTimeoutMs; performance.now() < limitAt && child.exitCode === null; ) {
        const found = /http:\/\/127\.0\.0\.1:\d+/.exec(output);
        if (found) return { url: found[0], pid: child.pid ?? 0, stderr: () => stderr };
        await sleep(50);
      }
      throw new Error(`gateway ${command} did not start:\n${output}\n${stderr}`);
    },
    async stopAll() {
      for (const child of children) {
        if (child.exitCode !== null || child.signalCode !== null) continue;
        child.kill('SIGTERM');
        await once(child, 'exit');
      }
    },
  };
}

/**
 * Creates a key, and its project if necessary.
 * @param {string} url
 * @param {string} project
 * @param {object} settings settings of the project
 * @param {object} limits ceilings of the key
 */
export async function createKey(url, project, settings = {}, limits = {}) {
  const headers = { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' };
  const address = `${url}/provision/teams/${project}`;
  await request(address, { method: 'PUT', headers, body: JSON.stringify(settings) }).then(({ body }) => body.dump());
  const { body } = await request(`${address}/keys`, { method: 'POST', headers, body: JSON.stringify({ name: 'measured', ...limits }) });
  const made = /** @type {{ key: string }} */ (await body.json());
  return made.key;
}
