/**
 * The Temporal dev server of `npm start`: a real server with its web UI, on free ports, its state in the data directory.
 *
 * It is a process of its own in a session of its own. So a Ctrl-C in the terminal reaches only us, and we end it when our own work is
 * drained. And a kill -9 of ours leaves it running: the next start finds it by `temporal.json` and adopts it when it answers with our
 * namespace, else ends it and starts anew. A server that dies under us is started again on the same ports.
 */
import { spawn } from 'node:child_process';
import { mkdir, open, readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorSummary } from '../../core/error-messages.ts';
import { acquireFileLock } from '../../core/file-lock.ts';
import type { Logger } from '../../observability/logger.ts';
import { type DevServerRecord, readOrCreateDataDirId, readRecord, writeRecord } from './dev-server-files.ts';
import { identifyProcess, isRunning, type ProcessIdentity, terminateProcess } from './processes.ts';

export interface DevServerOptions {
  readonly binary: string;
  readonly dataDir: string;
  readonly logger: Logger;
  /** Does a Temporal server at this address have this namespace? Handed in: only `temporal.ts` speaks to Temporal. */
  readonly servesNamespace: (address: string, namespace: string) => Promise<boolean>;
  /** Called after a server that had died runs again. */
  readonly onRestart?: () => void;
  readonly signal?: AbortSignal;
}

export interface DevServer {
  readonly address: string;
  readonly uiUrl: string;
  readonly namespace: string;
  /** Whether it was left by an earlier process of ours. */
  readonly reattached: boolean;
  /** Process id at this moment. */
  pid(): number;
  /** Ends the server: SIGTERM, and SIGKILL after ten seconds. */
  stop(): Promise<void>;
}

interface Ports {
  readonly address: number;
  readonly ui: number;
}

const readyTimeoutMs = 60_000;
const reattachTimeoutMs = 10_000;
const stopGraceMs = 10_000;
/**
 * A write-ahead log that is forced to the disk at checkpoints only. By default the server makes a journal file and waits for the disk several
 * times in each of the dozen transactions of a workflow, and everybody waits for its one connection. A kill of the server loses nothing; a power cut
 * may lose the last seconds but breaks no file (sqlite.org/pragma.html#pragma_synchronous), and `repair` asks again for what is unfinished.
 */
const sqlitePragmas = ['--sqlite-pragma', 'journal_mode=WAL', '--sqlite-pragma', 'synchronous=1'];
/** How often a running server's life is looked at: an adopted one is no child of ours, so nobody tells. */
const checkIntervalMs = 1_500;

/** Adopts or starts the server of the data directory. Throws when it cannot be had; then nothing is left running. */
export async function startDevServer(input: DevServerOptions): Promise<DevServer> {
  const { logger } = input;
  const dataDir = resolve(input.dataDir); // The server runs in this folder, where a relative path would mean another one.
  const options = { ...input, dataDir };
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const lock = await acquireFileLock(join(dataDir, 'temporal.lock'));
  if (!lock) throw new Error(`another gateway process runs the Temporal dev server of ${dataDir}`);
  try {
    const namespace = `gateway-${await readOrCreateDataDirId(dataDir)}`;
    const reattached = await reattach(options, namespace);
    if (reattached) logger.info({ pid: reattached.pid }, `adopted the Temporal dev server at ${reattached.address}`);
    const initial = reattached ?? (await startOnFreePorts(options, namespace));
    return superviseServer(options, initial, { reattached: reattached !== null, release: lock.release });
  } catch (error) {
    lock.release();
    throw error;
  }
}

function superviseServer(
  options: DevServerOptions,
  initial: DevServerRecord,
  { reattached, release }: { reattached: boolean; release: () => void },
): DevServer {
  const { dataDir, logger } = options;
  const stopping = new AbortController();
  let current = initial;
  const supervising = restartWhenDead();
  return {
    address: initial.address,
    uiUrl: initial.uiUrl,
    namespace: initial.namespace,
    reattached,
    pid: () => current.pid,
    async stop() {
      if (stopping.signal.aborted) return supervising;
      stopping.abort();
      await supervising;
      await terminateProcess(current, stopGraceMs);
      release();
    },
  };

  async function restartWhenDead(): Promise<void> {
    for (let failures = 0; ; ) {
      await sleep(failures === 0 ? checkIntervalMs : Math.min(30_000, 500 * 2 ** failures), undefined, { signal: stopping.signal }).catch(
        () => {},
      ); // Rejects when stopping.
      if (stopping.signal.aborted) return;
      if (await isRunning(current)) continue;
      logger.warn({ pid: current.pid }, `the Temporal dev server died: ${await lastLogLine(dataDir)}; starting it again`);
      try {
        current = await launch({ ...options, signal: stopping.signal }, initial.namespace, getPorts(initial));
        failures = 0;
        options.onRestart?.();
      } catch (error) {
        if (stopping.signal.aborted) return;
        failures++;
        logger.warn({}, `the Temporal dev server does not start: ${errorSummary(error)}`);
      }
    }
  }
}

/** The server of the last start, when it still runs and answers. One that runs but does not answer is ended. */
async function reattach(options: DevServerOptions, namespace: string): Promise<DevServerRecord | null> {
  const record = await readRecord(options.dataDir);
  if (!record || !(await isRunning(record))) return null;
  if (record.namespace === namespace && (await waitUntilReady(options, record, reattachTimeoutMs))) return record;
  options.logger.warn({ pid: record.pid }, `the Temporal dev server at ${record.address} was left behind and does not answer: ending it`);
  await terminateProcess(record, stopGraceMs);
  return null;
}

async function startOnFreePorts(options: DevServerOptions, namespace: string): Promise<DevServerRecord> {
  for (let attempt = 1; ; attempt++) {
    const [address = 0, ui = 0] = await findFreePorts(2);
    try {
      return await launch(options, namespace, { address, ui });
    } catch (error) {
      // Most likely another process took a port between our look and the server's start.
      options.signal?.throwIfAborted();
      if (attempt === 3) throw error;
      options.logger.warn({}, `${errorSummary(error)}; trying other ports`);
    }
  }
}

/** Starts the server and waits until it serves the namespace. */
async function launch(options: DevServerOptions, namespace: string, ports: Ports): Promise<DevServerRecord> {
  const { dataDir } = options;
  const identity = await spawnServer(options, namespace, ports);
  const record = { ...identity, address: `127.0.0.1:${ports.address}`, uiUrl: `http://127.0.0.1:${ports.ui}`, namespace };
  // Before it is ready: a kill of ours from here on leaves a server that the next start knows.
  await writeRecord(dataDir, record);
  try {
    if (await waitUntilReady(options, record, readyTimeoutMs)) return record;
    throw new Error(`the Temporal dev server did not come up: ${await lastLogLine(dataDir)}`);
  } catch (error) {
    await terminateProcess(identity, stopGraceMs);
    throw error;
  }
}

async function spawnServer({ binary, dataDir }: DevServerOptions, namespace: string, ports: Ports): Promise<ProcessIdentity> {
  // A file and no pipe: with a reader that died the server would die at its next line. Begun anew at each start, so it stays small.
  const log = await open(join(dataDir, 'temporal.log'), 'w', 0o600);
  try {
    const child = spawn(
      binary,
      [
        'server',
        'start-dev',
        '--headless=false',
        '--ip',
        '127.0.0.1',
        '--port',
        String(ports.address),
        '--ui-port',
        String(ports.ui),
      ].concat('--db-filename', join(dataDir, 'temporal.db'), '--namespace', namespace, '--log-level', 'error', ...sqlitePragmas),
      // No variable of ours: neither vendors' keys nor TEMPORAL_… settings are meant for it. HOME keeps it off the user's own settings.
      { cwd: dataDir, env: { HOME: dataDir }, detached: true, stdio: ['ignore', log.fd, log.fd] },
    );
    await new Promise<void>((resolve, reject) => child.once('spawn', resolve).once('error', reject));
    child.unref();
    const identity = child.pid === undefined ? null : await identifyProcess(child.pid);
    if (!identity) throw new Error(`the Temporal dev server ended at once: ${await lastLogLine(dataDir)}`);
    return identity;
  } finally {
    await log.close();
  }
}

async function waitUntilReady({ servesNamespace, signal }: DevServerOptions, record: DevServerRecord, timeoutMs: number): Promise<boolean> {
  const deadline = performance.now() + timeoutMs;
  while (performance.now() < deadline && (await isRunning(record))) {
    signal?.throwIfAborted();
    if (await servesNamespace(record.address, record.namespace)) return true;
    await sleep(100, undefined, signal ? { signal } : {});
  }
  return false;
}

/** Free ports of the loopback, all open at once so that they differ. */
async function findFreePorts(count: number): Promise<number[]> {
  const servers = await Promise.all(
    Array.from(
      { length: count },
      () =>
        new Promise<ReturnType<typeof createServer>>((resolve, reject) => {
          const server = createServer().once('error', reject);
          server.listen(0, '127.0.0.1', () => resolve(server));
        }),
    ),
  );
  const ports = servers.map((server) => {
    const address = server.address();
    return typeof address === 'object' && address !== null ? address.port : 0;
  });
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

function getPorts({ address, uiUrl }: DevServerRecord): Ports {
  return { address: Number(address.split(':').at(-1)), ui: Number(new URL(uiUrl).port) };
}

async function lastLogLine(dataDir: string): Promise<string> {
  const text = await readFile(join(dataDir, 'temporal.log'), 'utf8').catch(() => '');
  return text.trim().split('\n').at(-1)?.slice(0, 300) || 'it said nothing';
}
