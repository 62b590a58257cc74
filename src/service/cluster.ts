/**
 * A cluster of API processes that share one port (`GATEWAY_API_PROCESSES`). The parent doesn't serve any calls. It
 * accepts connections and distributes them round-robin, so that a client's keep-alive connections are spread over all
 * processes. It also replaces processes that die.
 *
 * - The first process starts alone. It migrates the schema, creates the admin token and the first key, and runs durable
 *   work. If it fails, the whole start fails with the same error.
 * - A process that dies is replaced, with a backoff. One of the other processes recovers its journal
 *   (journal/recover.ts). If a process fails to start `maxStartAttempts` times, the service exits.
 * - To stop, all processes shut down in order, each within its own timeouts, and then the demo vendor stops. Processes
 *   also shut down if the parent was killed.
 * - The parent forwards the standard output of the processes line by line.
 *
 * @see docs/architecture/processes.md
 */
import type { Worker } from 'node:cluster';
import cluster from 'node:cluster';
import { resolve } from 'node:path';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import type { Role } from '../app/app.ts';
import { publishAddress } from '../cli/addresses.ts';
import { type Config, ConfigError } from '../config/config.ts';
import { type ConfigSource, loadConfig, readConfigSource } from '../config/load.ts';
import { noSecretFiles } from '../config/secret-files.ts';
import { backoffMs } from '../core/backoff.ts';
import { pause, untilAborted } from '../core/time-limit.ts';
import { readVersion } from '../core/version.ts';
import type { LogOutput } from '../observability/log-output.ts';
import { createLogger, resolveLogFormat, standardOutput } from '../observability/logger.ts';
import { type ConfigFileSnapshot, type ParentMessage, type WorkerMessage, workerMessage } from './cluster-messages.ts';
import { type ClusterMetrics, createClusterMetrics } from './cluster-metrics.ts';
import { createSharedDemoVendor } from './demo-vendor-config.ts';
import { createSharedLocalEmbedder, type Endpoint, formatStatus } from './local-embedder-config.ts';
import { startMetricsServer } from './metrics-server.ts';
import type { ServiceHost } from './service-host.ts';
import { StartError, wrapStartError } from './start-error.ts';

/**
 * Flags for Node, the same as in the Dockerfile. With a new space of at least 16 MB, V8 doesn't promote the objects of
 * running calls to the old space. The second flag is about request and response bodies, which are stored outside of the
 * heap. It makes V8 count them towards the heap's limit. Without the flag, V8 would run a full garbage collection after
 * every 64 MB of bodies.
 */
export const heapFlags = ['--min-semi-space-size=16', '--external-memory-accounted-in-global-limit'];

const main = fileURLToPath(new URL('../main.ts', import.meta.url));
/**
 * How long a process may take to shut down, on top of the stop delay and the time for running calls. Longer than the
 * sum of its other timeouts.
 */
const otherStopTimeoutsMs = 25_000;
const maxStartAttempts = 5;
const backoff = { initialMs: 500, maxMs: 15_000 };
/**
 * A process counts as healthy after it has run this long. If it dies later than that, the restart backoff starts over.
 */
const healthyAfterMs = 60_000;
const maxLineLength = 1_048_576;
/** How much of a process's standard error we keep, in order to report why it exited. */
const maxReasonLength = 4_096;

interface ProcessExit {
  readonly wasListening: boolean;
  readonly uptimeMs: number;
  readonly reason: string;
}

interface ApiProcess {
  readonly worker: Worker;
  /** Resolves to the URL of the process, or to null if it exits before it listens. */
  readonly listening: Promise<string | null>;
  readonly exited: Promise<ProcessExit>;
}

export interface ClusterOptions {
  readonly role: Role;
  readonly source: ConfigSource;
  readonly config: Config;
  readonly host: ServiceHost;
}

/** Runs until the process is asked to stop. Throws StartError if the cluster can't start or continue. */
export async function runCluster({ role, source, config, host }: ClusterOptions): Promise<void> {
  if (!cluster.isPrimary) throw new StartError('GATEWAY_API_PROCESSES: must be 1 if another Node.js cluster runs the gateway');
  const output = standardOutput();
  const logger = createLogger({ level: config.server.logLevel, format: config.server.logFormat, destination: output });
  const demoVendor = createSharedDemoVendor();
  const dataDir = resolve(config.server.dataDir);
  const processes = new Map<number, ApiProcess>();
  const count = config.server.apiProcesses;
  let isEmbedderReady = false;
  const localEmbedder = createSharedLocalEmbedder({
    ...{ env: host.env, logger },
    onChange(isReady) {
      isEmbedderReady = isReady;
      for (const { worker } of processes.values()) sendMessage(worker, { kind: 'embedder', isReady });
    },
  });
  const complete = async (from: ConfigSource, read: Config): Promise<ConfigFileSnapshot> =>
    toSnapshot(from, await demoVendor.urlFor(read), await localEmbedder.endpointFor(read));
  let snapshot = await complete(source, config);
  const metrics = createClusterMetrics();
  let address = '';
  let unpublishAddress = async (): Promise<void> => undefined;
  /**
   * Aborted when the cluster stops for a reason other than `host.stopping`. Once either signal has aborted, we no
   * longer replace processes that exit.
   */
  const closing = new AbortController();
  const stopSignal = AbortSignal.any([host.stopping, closing.signal]);

  const execArgv = [...process.execArgv, ...heapFlags];
  cluster.setupPrimary({ exec: main, execArgv, args: ['member', role], stdio: ['ignore', 'pipe', 'pipe', 'ipc'] });
  cluster.schedulingPolicy = cluster.SCHED_RR;

  const startInSlot = async (slot: number, isFirst = false): Promise<ApiProcess> => {
    // The processes write to a pipe, so they can't detect a terminal themselves.
    const env = { LOG_FORMAT: resolveLogFormat(config.server.logFormat) };
    const apiProcess = startApiProcess({ slot, isFirst, env, snapshot, output, metrics, writeError: host.writeError });
    processes.set(slot, apiProcess);
    if (isEmbedderReady) sendMessage(apiProcess.worker, { kind: 'embedder', isReady: true });
    const url = await apiProcess.listening;
    if (url !== null && url !== address) {
      // The address can change if `PORT` is 0 and all processes have died, because the replacements get a new port.
      address = url;
      await unpublishAddress();
      unpublishAddress = await wrapStartError(`cannot write ${dataDir}/addresses`, publishAddress(dataDir, url));
    }
    return apiProcess;
  };

  /** Replaces the process in a slot whenever it dies. Rejects after too many failures. */
  const superviseSlot = async (slot: number, first: ApiProcess): Promise<void> => {
    let apiProcess = first;
    let failures = 0;
    for (let failedStarts = 0; ; ) {
      const { wasListening, uptimeMs, reason } = await apiProcess.exited;
      if (stopSignal.aborted) return;
      failures = wasListening && uptimeMs > healthyAfterMs ? 1 : failures + 1;
      failedStarts = wasListening ? 0 : failedStarts + 1;
      if (failedStarts >= maxStartAttempts)
        throw new StartError(`an API process failed to start ${maxStartAttempts} times; the last reason was: ${reason}`);
      const delayMs = backoffMs(failures, backoff);
      const event = wasListening ? 'API process died; replacing it' : 'API process failed to start; retrying';
      logger.error({ process: slot, reason, backoffMs: delayMs }, event);
      await pause(delayMs, stopSignal);
      if (stopSignal.aborted) return;
      apiProcess = await startInSlot(slot);
      if ((await apiProcess.listening) !== null) logger.info({ process: slot }, 'API process replaced');
    }
  };

  const reload = async (): Promise<void> => {
    try {
      const next = readConfigSource(host.env, role);
      snapshot = await complete(next, loadConfig(next));
    } catch (error) {
      const reason = error instanceof ConfigError ? { errors: error.errors } : { err: error };
      return logger.error(reason, 'configuration rejected; keeping the active one');
    }
    for (const { worker } of processes.values()) sendMessage(worker, { kind: 'reload', basis: snapshot });
  };

  const terminateAll = (): void => {
    for (const { worker } of processes.values()) worker.process.kill('SIGTERM');
  };
  host.stopping.addEventListener('abort', terminateAll, { once: true });
  // A second signal makes the parent exit immediately (main.ts), so pass it on to make the processes exit as well. If
  // the parent exits for another reason, this is the first signal that the processes get, so they shut down in an
  // orderly way.
  process.once('exit', terminateAll);
  let stopMetricsServer = async (): Promise<void> => undefined;
  try {
    const { metricsAddress } = config.server;
    if (metricsAddress) stopMetricsServer = await startMetricsServer({ address: metricsAddress, readMetrics: metrics.read, logger });
    const first = await startInSlot(1, true);
    if (host.stopping.aborted) return;
    if (address === '') throw new StartError((await first.exited).reason);
    const others = await Promise.all(Array.from({ length: count - 1 }, (_, index) => startInSlot(index + 2)));
    if (host.stopping.aborted) return;
    logger.info({ url: address, role, version: readVersion(), processes: count }, 'listening');
    if (role === 'start') localEmbedder.onStatus((status) => host.write(formatStatus(status)));
    host.onReload(() => void reload());
    const supervised = [first, ...others].map((apiProcess, index) => superviseSlot(index + 1, apiProcess));
    await Promise.race([Promise.all(supervised), untilAborted(host.stopping)]);
  } finally {
    closing.abort();
    logger.info({}, 'stopping');
    if (!host.stopping.aborted) terminateAll();
    const stopTimeoutMs = config.server.stopDelayMs + config.server.stopTimeoutMs + otherStopTimeoutsMs;
    await Promise.all([...processes.values()].map((apiProcess) => waitForExit(apiProcess, stopTimeoutMs)));
    process.off('exit', terminateAll);
    await stopMetricsServer();
    await unpublishAddress();
    await Promise.all([demoVendor.stop(), localEmbedder.stop()]);
  }
}

function toSnapshot(
  { fileText, fileName, secrets = noSecretFiles }: ConfigSource,
  demoUrl: string | null,
  localEmbedder: Endpoint | null,
): ConfigFileSnapshot {
  return { fileText, fileName, secrets, demoUrl, localEmbedder };
}

interface ApiProcessOptions {
  readonly slot: number;
  readonly isFirst: boolean;
  readonly env: Readonly<Record<string, string>>;
  readonly snapshot: ConfigFileSnapshot;
  readonly output: LogOutput;
  readonly metrics: ClusterMetrics;
  readonly writeError: (text: string) => void;
}

function startApiProcess({ slot, isFirst, env, snapshot, output, metrics, writeError }: ApiProcessOptions): ApiProcess {
  const startedAt = performance.now();
  const worker = cluster.fork(env);
  let stderrText = '';
  let isListening = false;
  // Node emits this if it couldn't start the process. It also emits `close` afterwards, where we report the error.
  worker.on('error', (error) => {
    stderrText += `${error}\n`;
  });
  const { stdout, stderr } = worker.process;
  if (stdout) forwardLines(stdout, output);
  stderr?.setEncoding('utf8').on('data', (text: string) => {
    if (isListening) writeError(text);
    else stderrText = (stderrText + text).slice(-maxReasonLength);
  });
  sendMessage(worker, { kind: 'begin', place: slot, isFirst, basis: snapshot });
  const ownMetrics = metrics.add({ request: (id) => sendMessage(worker, { kind: 'collect metrics', id }) });
  worker.process.once('exit', ownMetrics.remove);
  // Unlike `exit`, `close` comes after all output of the process has been read.
  const exited = new Promise<ProcessExit>((done) => {
    worker.process.once('close', (code, signal) => {
      done({
        wasListening: isListening,
        uptimeMs: performance.now() - startedAt,
        reason: findExitReason(stderrText) ?? `it exited with ${signal ?? code}`,
      });
    });
  });
  const listening = new Promise<string>((done) => {
    worker.on('message', (data: unknown) => {
      const message: WorkerMessage = workerMessage.parse(data);
      switch (message.kind) {
        case 'up':
          isListening = true;
          writeError(stderrText);
          stderrText = '';
          return done(message.url);
        case 'collected':
          return ownMetrics.receive(message.id, message.families);
        case 'read metrics':
          // Ignore errors, because we have nothing to send. The process that asked for the metrics will report a
          // timeout.
          return void metrics.read().then(
            (text) => sendMessage(worker, { kind: 'metrics', id: message.id, text }),
            () => undefined,
          );
      }
    });
  });
  return { worker, exited, listening: Promise.race([listening, exited.then(() => null)]) };
}

/** Copies whole lines, because several processes share the output. */
function forwardLines(source: Readable, output: LogOutput): void {
  let rest = '';
  source.setEncoding('utf8').on('data', (text: string) => {
    rest += text;
    const end = rest.length > maxLineLength ? rest.length : rest.lastIndexOf('\n') + 1;
    if (end > 0) output.write(rest.slice(0, end));
    rest = rest.slice(end);
  });
  source.once('end', () => output.write(rest));
}

/**
 * Returns why a process exited, according to its standard error: the sentence that main.ts prints, or an uncaught
 * error. Null if there's neither.
 */
function findExitReason(stderrText: string): string | null {
  return /^gateway: (.+)$/m.exec(stderrText)?.[1] ?? /^\w*Error\b.*$/m.exec(stderrText)?.[0] ?? null;
}

function sendMessage({ process: child }: Worker, message: ParentMessage): void {
  // We can't send anything to a process that has disconnected. It's about to exit, and the `exit` handler does the
  // rest.
  if (child.connected) child.send(message, () => undefined);
}

async function waitForExit({ worker, exited }: ApiProcess, timeoutMs: number): Promise<void> {
  const timer = setTimeout(() => worker.process.kill('SIGKILL'), timeoutMs);
  await exited;
  clearTimeout(timer);
}
