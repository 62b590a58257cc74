/**
 * Tests the port of the local embedder while its process dies. Other programs can't take over the port, and callers
 * don't have to wait.
 */
import { spawnSync } from 'node:child_process';
import { dirname } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type LocalEmbedder, startLocalEmbedder } from '../../src/embedder/supervisor.ts';
import { createLogger } from '../../src/observability/logger.ts';
import { embedderFiles, findEmbedder } from '../support/embedder-files.ts';
import { eventually } from '../support/gateway.ts';

let embedder: LocalEmbedder;

beforeAll(async () => {
  embedder = await start();
});
afterAll(() => embedder.stop());

async function start(onChange = (_isReady: boolean): void => undefined): Promise<LocalEmbedder> {
  const { runtime } = await embedderFiles();
  const options = {
    models: ['bge-small-en-v1.5'] as const,
    folder: null,
    cacheDir: dirname(runtime),
    variables: {},
    logger: createLogger({ level: 'silent' }),
  };
  return startLocalEmbedder({ ...options, onChange, onUnavailable: () => undefined });
}

/** Returns the status of a request, or null if its connection breaks. Throws if there is no response. */
function embed(token = embedder.token): Promise<number | null> {
  const body = JSON.stringify({ model: 'bge-small-en-v1.5', input: 'tea' });
  const headers = { authorization: `Bearer ${token}` };
  const signal = AbortSignal.timeout(300_000);
  return fetch(`${embedder.url}/embeddings`, { method: 'POST', headers, body, signal }).then(
    ({ status }) => status,
    (error: unknown) => {
      if (signal.aborted) throw error;
      return null;
    },
  );
}

async function untilReady(): Promise<number> {
  await eventually(async () => expect(await embed()).toBe(200));
  return findEmbedder(process.pid);
}

/** Kills the process and tries to take its port as soon as it is dead. Prints `taken` or the error. */
const takePort = `
const { execFileSync } = require('node:child_process');
const [pid, port] = process.argv.slice(1).map(Number);
process.kill(pid, 'SIGKILL');
const state = () => { try { return execFileSync('ps', ['-o', 'stat=', '-p', pid], { encoding: 'utf8' }); } catch { return 'Z'; } };
while (!state().trim().startsWith('Z'));
const server = require('node:net').createServer().once('error', ({ code }) => console.log(code));
server.listen(port, '127.0.0.1', () => { console.log('taken'); server.close(); });
`;

test("keeps the local embedder's port reserved until its process is restarted", async () => {
  const pid = await untilReady();
  // The service runs in this process, which doesn't notice anything meanwhile.
  const { stdout } = spawnSync(process.execPath, ['-e', takePort, String(pid), new URL(embedder.url).port], { encoding: 'utf8' });
  expect(stdout).toBe('EADDRINUSE\n');
  // 503, or a broken connection if it was accepted before the service noticed the death.
  expect([503, null]).toContain(await embed());
  expect(await untilReady()).not.toBe(pid);
});

test('the local embedder returns 401 without its token', async () => {
  await untilReady();
  expect(await embed('other')).toBe(401);
});

test('ends pending embedding requests when the embedder process dies', async () => {
  const pid = await untilReady();
  process.kill(pid, 'SIGSTOP');
  const statuses = Array.from({ length: 20 }, () => embed());
  // Meanwhile, their connections are accepted and passed on.
  for (let turn = 0; turn < 100; turn += 1) await nextTurn();
  process.kill(pid, 'SIGKILL');
  for (const status of await Promise.all(statuses)) expect([503, null]).toContain(status);
  await untilReady();
});

test("doesn't start the embedder process if it is stopped while checking its files", async () => {
  const changes: boolean[] = [];
  const stopped = await start((isReady) => changes.push(isReady));
  await stopped.stop();
  expect(changes).toEqual([]);
});
