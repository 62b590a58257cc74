/**
 * The Temporal dev server of `npm start`: a real server with its web UI, on free ports, with its state in the data directory.
 *
 * It runs in a separate session, so Ctrl-C in the terminal reaches only the gateway, which drains its work before it stops the server.
 * After a `kill -9` of the gateway the server keeps running: the next start finds it through `temporal.json` and reattaches when it serves
 * the expected namespace, and otherwise terminates it and starts a new one. A server that crashes is restarted on the same ports. One that
 * somebody stopped with SIGTERM or SIGINT stays down until the next start of the gateway.
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
  /** Whether a Temporal server at this address has this namespace. Injected, because only the client files may import the SDK. */
  readonly servesNamespace: (address: string, namespace: string) => Promise<boolean>;
  /** Called after a server that died was restarted. */
  readonly onRestart?: () => void;
  readonly signal?: AbortSignal;
}

export interface DevServer {
  readonly address: string;
  readonly uiUrl: string;
  readonly namespace: string;
  /** True when an earlier gateway process had started it. */
  readonly reattached: boolean;
  /** Current process id; changes with a restart. */
  pid(): number;
  /** Whether somebody else has stopped it. It is not restarted then. */
  isStopped(): boolean;
  /** Terminates the server: SIGTERM, then SIGKILL after ten seconds. */
  stop(): Promise<void>;
}

interface RunningServer {
  readonly record: DevServerRecord;
  /** Resolves when the process has exited: whether a signal asked it to. We can't know this about a server of an earlier gateway process. */
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
 * Write-ahead logging, synced at checkpoints only. By default the server syncs several times in each of a workflow's dozen transactions, and
 * all of them share one connection. A killed server loses nothing; a power cut may lose the last seconds but does not corrupt the file
 * (https://sqlite.org/pragma.html#pragma_synchronous), and the dispatcher re-enqueues unfinished work.
 */
const sqlitePragmas = ['--sqlite-pragma', 'journal_mode=WAL', '--sqlite-pragma', 'synchronous=1'];
/** Projects take turns in the task queue. Servers that do not know the setting ignore it. */
const fairQueues = ['--dynamic-config-value', 'matching.enableFairness=true'];
/** Interval of the liveness check. Polled, because a reattached server is not a child process and sends no exit event. */
const checkIntervalMs = 1_500;
const restartBackoff = { initialMs: 1_000, maxMs: 30_000 };

/** Reattaches to the data directory's server or starts it. Throws when neither works; then no server is left running. */
export async function startDevServer(input: DevServerOptions): Promise<DevServer> {
  const { logger } = input;
  const dataDir = resolve(input.dataDir); // The server's working directory differs, so a relative path would point elsewhere.
  const options = { ...input, dataDir };
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const lock = await acquireFileLock(join(dataDir, 'temporal.lock'));
  if (!lock) throw new Error(`another gateway process runs the Temporal dev server of ${dataDir}`);
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
): DevServer {
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
    ...{ address, uiUrl, namespace, reattached },
    pid: () => current.record.pid,
    isStopped: () => isStopped,
    stop: () => (stopped ??= stop()),
  };

  async function restartWhenDead(signal: AbortSignal): Promise<'idle'> {
    const { pid } = current.record;
    if (isStopped || (await isRunning(current.record))) return 'idle';
    isStopped = await current.wasStopped;
    if (isStopped) {
      logger.warn({ pid }, 'Temporal dev server was stopped; durable work waits until the next start of the gateway');
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

/** The server of an earlier start, if it still serves the namespace. Terminates one that runs but does not. */
async function reattach(options: DevServerOptions, namespace: string): Promise<RunningServer | null> {
  const record = await readRecord(options.dataDir);
  if (!record || !(await isRunning(record))) return null;
  if (record.namespace === namespace && (await waitUntilReady(options, record, reattachTimeoutMs)))
    return { record, wasStopped: Promise.resolve(false) };
  options.logger.warn({ pid: record.pid, address: record.address }, 'terminating an abandoned Temporal dev server that does not respond');
  await terminateProcess(record, stopGraceMs);
  return null;
}

async function startOnFreePorts(options: DevServerOptions, namespace: string): Promise<RunningServer> {
  for (let attempt = 1; ; attempt++) {
    const ports = await findFreePorts();
    try {
      return await launch(options, namespace, ports);
    } catch (error) {
      // Most likely another process took a port after `findFreePorts` released it.
      options.signal?.throwIfAborted();
      if (attempt === 3) throw error;
      options.logger.warn({ err: error, attempt }, 'Temporal dev server failed to start; retrying on other ports');
    }
  }
}

/** Starts the server and waits until it serves the namespace. */
async function launch(options: DevServerOptions, namespace: string, ports: Ports): Promise<RunningServer> {
  const { dataDir } = options;
  const { identity, wasStopped } = await spawnServer(options, namespace, ports);
  const record = { ...identity, address: `127.0.0.1:${ports.address}`, uiUrl: `http://127.0.0.1:${ports.ui}`, namespace };
  // Before the server is ready: if the gateway is killed from here on, the next start finds the server.
  await writeRecord(dataDir, record);
  try {
    if (await waitUntilReady(options, record, readyTimeoutMs)) return { record, wasStopped };
    throw new Error(`the Temporal dev server did not come up: ${await lastLogLine(dataDir)}`);
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
  // A file, because a pipe whose reader died would kill the server at its next line. Truncated at each start, so it stays small.
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
      ].concat(
        '--db-filename',
        join(dataDir, 'temporal.db'),
        '--namespace',
        namespace,
        '--log-level',
        'error',
        ...sqlitePragmas,
        ...fairQueues,
      ),
      // No inherited variables: vendors' keys and TEMPORAL_… settings are not for the server. HOME keeps it away from the user's settings.
      { cwd: dataDir, env: { HOME: dataDir }, detached: true, stdio: ['ignore', log.fd, log.fd] },
    );
    await once(child, 'spawn');
    child.unref();
    // If the gateway exits without stopping the server, e.g. at the second Ctrl-C.
    const terminate = (): boolean => child.kill();
    process.once('exit', terminate);
    const wasStopped = once(child, 'exit').then(([code, signal]: unknown[]) => {
      process.off('exit', terminate);
      // The server handles both signals and exits with 0.
      return code === 0 || signal === 'SIGTERM' || signal === 'SIGINT';
    });
    const identity = child.pid === undefined ? null : await identifyProcess(child.pid);
    if (!identity) throw new Error(`the Temporal dev server ended at once: ${await lastLogLine(dataDir)}`);
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

/** Free loopback ports, opened at the same time so that they differ. */
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
