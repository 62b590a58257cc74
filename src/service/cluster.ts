/**
 * A set of API processes behind one port (`GATEWAY_WORKERS`). The parent answers no call: it accepts connections and deals them out in
 * turn, so that a caller's kept connections spread, and it keeps the set at its size.
 *
 * - The first member starts alone: it brings the schema up to date, makes the admin token and the first key, does the durable work. A start
 *   that fails there ends the whole start with its reason.
 * - A member that dies is replaced, after growing pauses. Its journal is adopted by a sibling (journal/recover.ts). One that never comes up
 *   in `startTries` tries ends the service with its reason.
 * - At a stop all members stop in order, each within its own limits; then the demo vendor. A member whose parent is killed stops in order too.
 * - What members write on standard output comes out of the parent, in whole lines.
 */
import type { Worker } from 'node:cluster';
import cluster from 'node:cluster';
import { resolve } from 'node:path';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Role } from '../app.ts';
import { publishAddress } from '../cli/addresses.ts';
import type { Config } from '../config/config.ts';
import { ConfigError } from '../config/config.ts';
import { type ConfigSource, loadConfig, readConfigSource } from '../config/load.ts';
import type { LogOutput } from '../observability/log-output.ts';
import { createLogger, standardOutput } from '../observability/logger.ts';
import { type ConfigFileSnapshot, type ParentMessage, type WorkerMessage, workerMessage } from './cluster-messages.ts';
import { createSharedDemoVendor } from './demo-vendor-config.ts';
import type { ServiceHost } from './service-host.ts';
import { StartError, wrapStartError } from './start-error.ts';

const main = fileURLToPath(new URL('../main.ts', import.meta.url));
/** More than all limits of a member's own stop together. */
const stopTimeoutMs = 40_000;
const maxStartAttempts = 5;
const initialBackoffMs = 500;
const maxBackoffMs = 15_000;
/** A member that lived for so long was well: its end begins a new count. */
const healthyAfterMs = 60_000;
const maxLineLength = 1_048_576;
/** How much of what a member says on standard error is kept as the reason of its end. */
const maxReasonLength = 4_096;

/** How a member ended. */
interface ProcessExit {
  readonly wasListening: boolean;
  readonly uptimeMs: number;
  readonly reason: string;
}

interface ApiProcess {
  readonly worker: Worker;
  /** Resolves with its address, or null when it ended before it had one. */
  readonly listening: Promise<string | null>;
  readonly exited: Promise<ProcessExit>;
}

export interface ClusterOptions {
  readonly role: Role;
  readonly source: ConfigSource;
  readonly config: Config;
  readonly host: ServiceHost;
}

/** Runs the set until the process is told to stop. Throws StartError when it cannot start, or cannot go on. */
export async function runCluster({ role, source, config, host }: ClusterOptions): Promise<void> {
  if (!cluster.isPrimary) throw new StartError('GATEWAY_WORKERS: above 1 it cannot be used inside of another cluster of Node processes');
  const output = standardOutput();
  const logger = createLogger({ level: config.server.logLevel, destination: output });
  const demoVendor = createSharedDemoVendor();
  const dataDir = resolve(config.server.dataDir);
  const processes = new Map<number, ApiProcess>();
  const count = config.server.workers;
  let snapshot = toSnapshot(source, await demoVendor.urlFor(config));
  let address = '';
  let unpublishAddress = async (): Promise<void> => undefined;
  /** Told to stop, or about to end for a reason of its own: nobody is replaced any more. */
  const closing = new AbortController();
  const stopSignal = AbortSignal.any([host.stopping, closing.signal]);

  cluster.setupPrimary({ exec: main, args: ['member', role], stdio: ['ignore', 'pipe', 'pipe', 'ipc'] });
  cluster.schedulingPolicy = cluster.SCHED_RR;

  const startInSlot = async (slot: number, isFirst = false): Promise<ApiProcess> => {
    const apiProcess = startApiProcess({ slot, isFirst, snapshot, output, writeError: host.writeError });
    processes.set(slot, apiProcess);
    const url = await apiProcess.listening;
    if (url !== null && url !== address) {
      // Also when all had died and the system chose another port for `PORT=0`.
      address = url;
      await unpublishAddress();
      unpublishAddress = await wrapStartError(`${dataDir}/addresses cannot be written`, publishAddress(dataDir, url));
    }
    return apiProcess;
  };

  /** Rejects when this place cannot be filled. */
  const superviseSlot = async (slot: number, first: Promise<ApiProcess>): Promise<void> => {
    let apiProcess = await first;
    let failures = 0;
    for (let failedStarts = 0; ; ) {
      const { wasListening, uptimeMs, reason } = await apiProcess.exited;
      if (stopSignal.aborted) return;
      failures = wasListening && uptimeMs > healthyAfterMs ? 1 : failures + 1;
      failedStarts = wasListening ? 0 : failedStarts + 1;
      if (failedStarts >= maxStartAttempts)
        throw new StartError(`an API process did not start ${maxStartAttempts} times; the last time: ${reason}`);
      const backoffMs = Math.min(maxBackoffMs, initialBackoffMs * 2 ** Math.min(failures - 1, 10));
      logger.error(
        { process: slot, reason, pauseMs: backoffMs },
        wasListening ? 'an API process died; it is replaced' : 'an API process did not start',
      );
      await sleep(backoffMs, undefined, { signal: stopSignal }).catch(() => undefined); // Rejects when stopping.
      if (stopSignal.aborted) return;
      apiProcess = await startInSlot(slot);
      if ((await apiProcess.listening) !== null) logger.info({ process: slot }, 'an API process was replaced');
    }
  };

  const reload = async (): Promise<void> => {
    try {
      const next = readConfigSource(host.env, role);
      snapshot = toSnapshot(next, await demoVendor.urlFor(loadConfig(next)));
    } catch (error) {
      const why = error instanceof ConfigError ? { faults: error.errors } : { error };
      return logger.error(why, 'the configuration has faults; the old one stays in force');
    }
    for (const { worker } of processes.values()) sendMessage(worker, { kind: 'reload', basis: snapshot });
  };

  const terminateAll = (): void => {
    for (const { worker } of processes.values()) worker.process.kill('SIGTERM');
  };
  host.stopping.addEventListener('abort', terminateAll, { once: true });
  // A second signal exits at once (main.ts): the members get theirs too. After any other sudden end they stop in order.
  process.once('exit', terminateAll);
  try {
    const first = await startInSlot(1, true);
    if (host.stopping.aborted) return;
    if (address === '') throw new StartError((await first.exited).reason);
    const others = Array.from({ length: count - 1 }, (_, index) => startInSlot(index + 2));
    await Promise.all(others);
    if (host.stopping.aborted) return;
    logger.info({ url: address, role, processes: count }, 'listening');
    host.onReload(() => void reload());
    const supervised = [Promise.resolve(first), ...others].map((apiProcess, index) => superviseSlot(index + 1, apiProcess));
    await Promise.race([Promise.all(supervised), aborted(host.stopping)]);
  } finally {
    closing.abort();
    logger.info({}, 'stopping');
    if (!host.stopping.aborted) terminateAll();
    await Promise.all([...processes.values()].map(waitForExit));
    process.off('exit', terminateAll);
    await unpublishAddress();
    await demoVendor.stop();
  }
}

function toSnapshot({ fileText, fileName }: ConfigSource, demoUrl: string | null): ConfigFileSnapshot {
  return { fileText, fileName, demoUrl };
}

interface ApiProcessOptions {
  readonly slot: number;
  readonly isFirst: boolean;
  readonly snapshot: ConfigFileSnapshot;
  readonly output: LogOutput;
  readonly writeError: (text: string) => void;
}

function startApiProcess({ slot, isFirst, snapshot, output, writeError }: ApiProcessOptions): ApiProcess {
  const startedAt = performance.now();
  const worker = cluster.fork();
  let stderrText = '';
  let isListening = false;
  // One that cannot even be forked; its `close` follows.
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
  // `close` comes when all that it said has been read.
  const exited = new Promise<ProcessExit>((done) => {
    worker.process.once('close', (code, signal) => {
      done({
        wasListening: isListening,
        uptimeMs: performance.now() - startedAt,
        reason: findExitReason(stderrText) ?? `it ended with ${signal ?? code}`,
      });
    });
  });
  const listening = new Promise<string>((done) => {
    worker.on('message', (data: unknown) => {
      const { url }: WorkerMessage = workerMessage.parse(data);
      isListening = true;
      writeError(stderrText);
      stderrText = '';
      done(url);
    });
  });
  return { worker, exited, listening: Promise.race([listening, exited.then(() => null)]) };
}

/** Whole lines, since several processes write them. */
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

/** What a process said at its end: our own sentence (main.ts), else the error that nobody caught. */
function findExitReason(stderrText: string): string | null {
  return /^gateway: (.+)$/m.exec(stderrText)?.[1] ?? /^\w*Error\b.*$/m.exec(stderrText)?.[0] ?? null;
}

function sendMessage({ process: child }: Worker, message: ParentMessage): void {
  // One that is gone needs no telling: its end is noticed elsewhere.
  if (child.connected) child.send(message, () => undefined);
}

/** After it was told to stop. */
async function waitForExit({ worker, exited }: ApiProcess): Promise<void> {
  const timer = setTimeout(() => worker.process.kill('SIGKILL'), stopTimeoutMs);
  await exited;
  clearTimeout(timer);
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((done) => {
    if (signal.aborted) done();
    else signal.addEventListener('abort', () => done(), { once: true });
  });
}
