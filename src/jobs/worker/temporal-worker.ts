/** Temporal workers: the SDK's runtime, the workflow bundle, and a worker that is recreated when it ends. */
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
  /** Whether the worker polls, which it also does while Temporal is unavailable. */
  isPolling(): boolean;
  stop(): Promise<void>;
}

/** After the time for running activities. The SDK waits 5 s for activities that it has cancelled. */
const stopTimeoutMs = 10_000;

/** Loads the SDK's worker. A process without a worker does not need it: it has half of the modules that a process loads at its start. */
export async function loadWorkerSdk(): Promise<typeof import('@temporalio/worker')> {
  return import('@temporalio/worker');
}

/**
 * Builds the workflow bundle into a file. `workflow-bundle.ts` calls it by name in a child process.
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

/** The workflows' interceptors, in the folder of their entry. */
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
      // Connecting to an address that drops packets cannot be cancelled, so the process does not wait for it.
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
      // A created worker can only be released by running it, so a stop during its creation takes effect here.
      if (stopping.signal.aborted) worker.shutdown();
      else logger.info({ queue: memoryQueue, namespace: options.namespace }, 'Temporal worker started');
      await run;
    } finally {
      worker = null;
      await connection.close();
    }
  }
}

/** Installs the gateway's logger in the SDK's only runtime before its first use. The runtime exists as long as a worker or native connection. */
export async function installRuntime(logger: Logger): Promise<void> {
  const { Runtime } = await loadWorkerSdk();
  if (Runtime._instance !== undefined) return;
  Runtime.install({
    logger: createSdkLogger(logger),
    telemetryOptions: { logging: { filter: { core: 'WARN', other: 'ERROR' }, forward: {} } },
    workerHeartbeatInterval: 0,
    shutdownSignals: [], // The application decides when and in which order to stop.
  });
}
