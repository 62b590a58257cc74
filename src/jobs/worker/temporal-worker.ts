/** Runs Temporal workers: installs the SDK's runtime, builds the workflow bundle, and recreates a worker that ends. */
import { randomUUID } from 'node:crypto';
import { rename, writeFile } from 'node:fs/promises';
import { dirname, extname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Worker } from '@temporalio/worker';
import { memoryQueue } from '../../../workflows/contract.ts';
import type { Logger } from '../../observability/logger.ts';
import { connectionOptions, type TemporalOptions } from '../connection/temporal-connection.ts';
import { createSdkLogger } from '../connection/temporal-log.ts';
import { createDataConverter, failureConverterPath } from '../payloads/data-converter.ts';
import { supervise } from './supervise.ts';
import { type WorkerSpec, workerOptions } from './worker-options.ts';

export interface RunningWorker {
  /** Reports whether the worker is polling, which it does even if Temporal is unavailable. */
  isPolling(): boolean;
  stop(): Promise<void>;
}

/**
 * We wait this long for the worker to stop after the grace period. The SDK itself waits 5 s for activities that it has
 * cancelled.
 */
const stopTimeoutMs = 10_000;

/**
 * Loads the SDK's worker on demand. It makes up half of the modules that a process loads at startup, and processes
 * without a worker don't need it.
 */
export async function loadWorkerSdk(): Promise<typeof import('@temporalio/worker')> {
  return import('@temporalio/worker');
}

/**
 * Builds the workflow bundle and writes it to a file. `workflow-bundle.ts` calls this by name in a child process.
 *
 * @public
 */
export async function writeWorkflowBundle(entry: string, target: string): Promise<void> {
  const { bundleWorkflowCode, DefaultLogger } = await loadWorkerSdk();
  const logger = new DefaultLogger('ERROR', ({ message }) => process.stderr.write(`${message}\n`));
  const modules = { workflowsPath: entry, workflowInterceptorModules: [tracingPath(entry)], failureConverterPath: failureConverterPath() };
  const { code } = await bundleWorkflowCode({ ...modules, logger });
  const temporaryFile = `${target}.${randomUUID()}`;
  await writeFile(temporaryFile, code, { mode: 0o600 });
  await rename(temporaryFile, target);
}

/** Returns the path of the workflow interceptors, which are next to the entry. */
function tracingPath(entry: string): string {
  return join(dirname(entry), `tracing${extname(entry)}`);
}

export function runWorker(options: TemporalOptions, spec: WorkerSpec): RunningWorker {
  const { logger } = options;
  const stopping = new AbortController();
  let worker: Worker | null = null;
  const running = supervise(runOnce, {
    signal: stopping.signal,
    onFailure: (error) => logger.warn({ err: error, queue: memoryQueue }, 'Temporal worker failed; retrying'),
  });
  return {
    isPolling: () => worker?.getState() === 'RUNNING',
    async stop() {
      stopping.abort();
      if (worker?.getState() === 'RUNNING') worker.shutdown();
      // The SDK can't cancel an attempt to connect to an address that drops packets, so we only wait for a limited
      // time.
      await Promise.race([running, sleep(spec.graceMs + stopTimeoutMs, undefined, { ref: false })]);
    },
  };

  async function runOnce(): Promise<void> {
    const sdk = await loadWorkerSdk();
    await installRuntime(logger);
    const codePath = await spec.bundle(stopping.signal);
    const connection = await sdk.NativeConnection.connect(connectionOptions(options));
    try {
      worker = await sdk.Worker.create({
        ...workerOptions(spec, { dataConverter: createDataConverter(options.payloadKeys, options.onMissingKey), logger }),
        connection,
        namespace: options.namespace,
        workflowBundle: { codePath },
      });
      const run = worker.run();
      // The only way to release a worker is to run it, so if we were stopped while it was created, we run it and shut
      // it down.
      if (stopping.signal.aborted) worker.shutdown();
      else logger.info({ queue: memoryQueue, namespace: options.namespace }, 'Temporal worker started');
      await run;
    } finally {
      worker = null;
      await connection.close();
    }
  }
}

/**
 * Installs the gateway's logger in the SDK's runtime before its first use. There's only one runtime, and it lives as
 * long as any worker or native connection.
 */
export async function installRuntime(logger: Logger): Promise<void> {
  const { Runtime } = await loadWorkerSdk();
  if (Runtime._instance !== undefined) return;
  Runtime.install({
    logger: createSdkLogger(logger),
    telemetryOptions: { logging: { filter: { core: 'WARN', other: 'ERROR' }, forward: {} } },
    workerHeartbeatInterval: 0,
    // The application decides when to stop, and in which order.
    shutdownSignals: [],
  });
}
