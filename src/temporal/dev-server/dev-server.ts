/**
 * Runs the Temporal dev server for `npm start`. This is a real server with a web UI. It listens on free ports and keeps
 * its state in the data directory.
 *
 * The server runs in its own session, so Ctrl-C in the terminal only reaches the gateway, which drains its work before
 * it stops the server. If the gateway is killed with `kill -9`, the server keeps running. The next start finds it
 * through `temporal.json` and reattaches to it if it serves the expected namespace, or else terminates it and starts a
 * new one. If the server crashes, we restart it on the same ports. If somebody stops it with SIGTERM or SIGINT, it
 * stays down until the gateway is restarted.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, open, readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createBackgroundLoop } from '../../core/background-loop.ts';
import { acquireFileLock } from '../../core/file-lock.ts';
import type { Logger } from '../../observability/logger.ts';
import { type DevServerRecord, readOrCreateDataDirId, readRecord, writeRecord } from './dev-server-files.ts';
import { identifyProcess, isRunning, type ProcessIdentity, terminateProcess } from './processes.ts';

export interface DevServerOptions {
  readonly binary: string;
  readonly dataDir: string;
  readonly logger: Logger;
  /**
   * Checks whether a Temporal server with this namespace is running at this address. It has to be passed in, because
   * only the client files may import the SDK.
   */
  readonly servesNamespace: (address: string, namespace: string) => Promise<boolean>;
  readonly onRestart?: () => void;
  readonly signal?: AbortSignal;
}

export type DevServer = ReturnType<typeof superviseServer>;

interface RunningServer {
  readonly record: DevServerRecord;
  /**
   * Resolves when the process exits, with true if a signal stopped it. If an earlier process of the gateway started the
   * server, we can't know that, so this resolves to false right away.
   */
  readonly wasStopped: Promise<boolean>;
}

interface Ports {
  readonly address: number;
  readonly ui: number;
}

const readyTimeoutMs = 60_000;
const reattachTimeoutMs = 10_000;
const stopGraceMs = 10_000;
/**
 * Makes the server use write-ahead logging and sync only at checkpoints. By default it syncs several times per
 * transaction. That would be slow, because a workflow takes a dozen transactions, and they all share a single
 * connection.
 *
 * If the server is killed, nothing is lost. A power failure can lose the last few seconds, but it doesn't corrupt the
 * file (https://sqlite.org/pragma.html#pragma_synchronous), and the dispatcher enqueues unfinished work again.
 */
const sqlitePragmas = ['--sqlite-pragma=journal_mode=WAL', '--sqlite-pragma=synchronous=1'];
/** Makes projects take turns in the task queue. Older servers ignore this setting. */
const fairQueues = '--dynamic-config-value=matching.enableFairness=true';
/**
 * How often to check whether the server is alive. After reattaching, the server isn't our child process, so there's no
 * exit event and we have to poll.
 */
const checkIntervalMs = 1_500;
const restartBackoff = { initialMs: 1_000, maxMs: 30_000 };

/**
 * Reattaches to the server of this data directory, or starts a new one. If this throws, it doesn't leave a server
 * running.
 */
export async function startDevServer(input: DevServerOptions): Promise<DevServer> {
  const { logger } = input;
  // Make the path absolute, because the server runs in a different working directory.
  const dataDir = resolve(input.dataDir);
  const options = { ...input, dataDir };
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const lock = await acquireFileLock(join(dataDir, 'temporal.lock'));
  if (!lock) throw new Error(`another gateway process is already running the Temporal dev server of ${dataDir}`);
  try {
    const namespace = `gateway-${await readOrCreateDataDirId(dataDir)}`;
    const reattached = await reattach(options, namespace);
    if (reattached)
      logger.info({ pid: reattached.record.pid, address: reattached.record.address }, 'reattached to the Temporal dev server');
    const initial = reattached ?? (await startOnFreePorts(options, namespace));
    return superviseServer(options, initial, { reattached: reattached !== null, release: lock.release });
  } catch (error) {
    lock.release();
    throw error;
  }
}

function superviseServer(
  options: DevServerOptions,
  initial: RunningServer,
  { reattached, release }: { reattached: boolean; release: () => void },
) {
  const { dataDir, logger } = options;
  let current = initial;
  let isStopped = false;
  let stopped: Promise<void> | null = null;
  const loop = createBackgroundLoop({
    run: restartWhenDead,
    intervalMs: checkIntervalMs,
    backoff: restartBackoff,
    onFailure: (error) => logger.warn({ err: error }, 'Temporal dev server failed to start; retrying'),
    ref: true,
  });
  loop.wake(checkIntervalMs);
  const { address, uiUrl, namespace } = initial.record;
  return {
    ...{ address, uiUrl, namespace },
    /** True if an earlier process of the gateway had started this server. */
    reattached,
    /** Returns the process id, which changes when the server is restarted. */
    pid: () => current.record.pid,
    /** Returns true if somebody else has stopped the server, in which case it isn't restarted. */
    isStopped: () => isStopped,
    /** Sends SIGTERM to the server, and SIGKILL after ten seconds. */
    stop: (): Promise<void> => (stopped ??= stop()),
  };

  async function restartWhenDead(signal: AbortSignal): Promise<'idle'> {
    const { pid } = current.record;
    if (isStopped || (await isRunning(current.record))) return 'idle';
    isStopped = await current.wasStopped;
    if (isStopped) {
      logger.warn({ pid }, 'Temporal dev server was stopped; durable work is paused until the gateway restarts');
      return 'idle';
    }
    logger.warn({ pid, lastLogLine: await lastLogLine(dataDir) }, 'Temporal dev server died; restarting it');
    current = await launch({ ...options, signal }, namespace, getPorts(initial.record));
    options.onRestart?.();
    return 'idle';
  }

  async function stop(): Promise<void> {
    await loop.stop();
    await terminateProcess(current.record, stopGraceMs);
    release();
  }
}

/** Returns the server of an earlier start if it still serves the namespace, and terminates it otherwise. */
async function reattach(options: DevServerOptions, namespace: string): Promise<RunningServer | null> {
  const record = await readRecord(options.dataDir);
  if (!record || !(await isRunning(record))) return null;
  if (record.namespace === namespace && (await waitUntilReady(options, record, reattachTimeoutMs)))
    return { record, wasStopped: Promise.resolve(false) };
  options.logger.warn({ pid: record.pid, address: record.address }, 'abandoned Temporal dev server not responding; terminating it');
  await terminateProcess(record, stopGraceMs);
  return null;
}

async function startOnFreePorts(options: DevServerOptions, namespace: string): Promise<RunningServer> {
  for (let attempt = 1; ; attempt++) {
    const ports = await findFreePorts();
    try {
      return await launch(options, namespace, ports);
    } catch (error) {
      // Another program has probably taken one of the ports in the meantime, so try other ports.
      options.signal?.throwIfAborted();
      if (attempt === 3) throw error;
      options.logger.warn({ err: error, attempt }, 'Temporal dev server failed to start; retrying on other ports');
    }
  }
}

async function launch(options: DevServerOptions, namespace: string, ports: Ports): Promise<RunningServer> {
  const { dataDir } = options;
  const { identity, wasStopped } = await spawnServer(options, namespace, ports);
  const record = { ...identity, address: `127.0.0.1:${ports.address}`, uiUrl: `http://127.0.0.1:${ports.ui}`, namespace };
  // Write the record before the server is ready. If the gateway is killed now, the next start can still find the
  // server.
  await writeRecord(dataDir, record);
  try {
    if (await waitUntilReady(options, record, readyTimeoutMs)) return { record, wasStopped };
    throw new Error(`the Temporal dev server did not start in time: ${await lastLogLine(dataDir)}`);
  } catch (error) {
    await terminateProcess(identity, stopGraceMs);
    throw error;
  }
}

async function spawnServer(
  { binary, dataDir }: DevServerOptions,
  namespace: string,
  ports: Ports,
): Promise<{ identity: ProcessIdentity; wasStopped: Promise<boolean> }> {
  // Let the server log to a file. If it logged to a pipe, its next line would kill it once the reader is gone. The file
  // is truncated at every start, so it doesn't grow forever.
  const log = await open(join(dataDir, 'temporal.log'), 'w', 0o600);
  try {
    const args = [
      ...['server', 'start-dev', '--headless=false', '--ip=127.0.0.1', `--port=${ports.address}`, `--ui-port=${ports.ui}`],
      ...[`--db-filename=${join(dataDir, 'temporal.db')}`, `--namespace=${namespace}`, '--log-level=error', ...sqlitePragmas, fairQueues],
    ];
    // Don't pass on our environment, because the server shouldn't see the vendors' keys or any TEMPORAL_… settings. It
    // has its own HOME, so that it ignores the user's configuration.
    const child = spawn(binary, args, { cwd: dataDir, env: { HOME: dataDir }, detached: true, stdio: ['ignore', log.fd, log.fd] });
    await once(child, 'spawn');
    child.unref();
    // If the gateway exits without stopping the server, e.g. on a second Ctrl-C, stop it here.
    const terminate = (): boolean => child.kill();
    process.once('exit', terminate);
    const wasStopped = once(child, 'exit').then(([code, signal]: unknown[]) => {
      process.off('exit', terminate);
      // The server exits with code 0 after it has handled SIGTERM or SIGINT.
      return code === 0 || signal === 'SIGTERM' || signal === 'SIGINT';
    });
    const identity = child.pid === undefined ? null : await identifyProcess(child.pid);
    if (!identity) throw new Error(`the Temporal dev server exited immediately: ${await lastLogLine(dataDir)}`);
    return { identity, wasStopped };
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

/** Finds two free ports on the loopback address. Opens both at the same time so that they're different. */
async function findFreePorts(): Promise<Ports> {
  const servers = [createServer(), createServer()];
  const [address = 0, ui = 0] = await Promise.all(
    servers.map(async (server) => {
      await once(server.listen(0, '127.0.0.1'), 'listening');
      const bound = server.address();
      return typeof bound === 'object' && bound !== null ? bound.port : 0;
    }),
  );
  await Promise.all(servers.map((server) => once(server.close(), 'close')));
  return { address, ui };
}

function getPorts({ address, uiUrl }: DevServerRecord): Ports {
  return { address: Number(address.split(':').at(-1)), ui: Number(new URL(uiUrl).port) };
}

async function lastLogLine(dataDir: string): Promise<string> {
  const text = await readFile(join(dataDir, 'temporal.log'), 'utf8').catch(() => '');
  return text.trim().split('\n').at(-1)?.slice(0, 300) || 'it wrote no log';
}
