/**
 * Runs a Temporal server that a test can kill and restart at the same address, like an operator's server that fails and
 * recovers.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { servesNamespace } from '../../src/temporal/connection/temporal-connection.ts';
import { ensureTemporal } from './temporal-program.ts';
import { until } from './until.ts';
import { unusedPort } from './unused-port.ts';

export interface TemporalServer {
  readonly address: string;
  /**
   * Starts the server with the state of its last run, or without any state (`empty`). Resolves when it accepts
   * requests.
   */
  start(state?: 'empty'): Promise<void>;
  kill(): Promise<void>;
  /** Kills the server and removes its state. */
  remove(): Promise<void>;
}

/** Makes deleted runs disappear from lists sooner. By default, this takes another half a minute. */
const fastDeletion = { 'history.transferProcessorUpdateAckInterval': '1s', 'history.visibilityProcessorUpdateAckInterval': '1s' };

/** Creates a server. The caller has to remove it. `settings` are added to its dynamic configuration. */
export async function createTemporalServer(settings: Readonly<Record<string, number | boolean>> = {}): Promise<TemporalServer> {
  const binary = await ensureTemporal();
  const dir = await mkdtemp(join(tmpdir(), 'gateway-temporal-'));
  const port = String(await unusedPort());
  const address = `127.0.0.1:${port}`;
  const files = ['--db-filename', join(dir, 'temporal.db'), '--sqlite-pragma', 'journal_mode=WAL', '--sqlite-pragma', 'synchronous=1'];
  const dynamic = Object.entries({ ...fastDeletion, ...settings }).flatMap(([name, value]) => [
    '--dynamic-config-value',
    `${name}=${JSON.stringify(value)}`,
  ]);
  const args = ['server', 'start-dev', '--headless', '--ip', '127.0.0.1', '--port', port, '--log-level', 'error', ...files, ...dynamic];
  let child: ChildProcess | null = null;
  const isRunning = (): boolean => child !== null && child.exitCode === null && child.signalCode === null;

  const server: TemporalServer = {
    address,
    async start(state) {
      if (state === 'empty') for (const end of ['', '-wal', '-shm']) await rm(join(dir, `temporal.db${end}`), { force: true });
      await until(
        'the Temporal server serves requests',
        async () => {
          // The server exits if one of its internal ports is taken. In this case, start it again.
          if (!isRunning()) child = spawn(binary, args, { cwd: dir, env: { HOME: dir, GOGC: '400' }, stdio: 'ignore' });
          return servesNamespace(address, 'default');
        },
        200_000,
      );
    },
    async kill() {
      if (child === null || !isRunning()) return;
      const exited = once(child, 'exit');
      child.kill('SIGKILL');
      await exited;
    },
    async remove() {
      await server.kill();
      await rm(dir, { recursive: true, force: true });
    },
  };
  await server.start();
  return server;
}
