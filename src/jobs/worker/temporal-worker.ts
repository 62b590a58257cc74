/** Workers: the SDK's runtime, the bundle of workflows they run, and one that is made again when it ends. */
import { randomUUID } from 'node:crypto';
import { rename, writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { bundleWorkflowCode, NativeConnection, Runtime, Worker } from '@temporalio/worker';
import { errorSummary } from '../../core/error-messages.ts';
import type { Logger } from '../../observability/logger.ts';
import { connectionOptions, type TemporalOptions } from '../connection/temporal-connection.ts';
import { createSdkLogger } from '../connection/temporal-log.ts';
import { createDataConverter, failureConverterPath } from '../payloads/data-converter.ts';
import { supervise } from './supervise.ts';
import { type WorkerSpec, workerOptions } from './worker-options.ts';

export interface RunningWorker {
  /** Whether it polls at this moment; while Temporal is away it does, in vain. */
  isPolling(): boolean;
  stop(): Promise<void>;
}

const stopTimeoutMs = 25_000;

/**
 * Builds the workflow bundle into a file. Runs in a process of its own (`workflow-bundle.ts`), which calls it by name.
 *
 * @public
 */
export async function writeWorkflowBundle(entry: string, target: string): Promise<void> {
  const silent = (): void => {};
  const logger = {
    log: silent,
    trace: silent,
    debug: silent,
    info: silent,
    warn: silent,
    error: (message: string) => process.stderr.write(`${message}\n`),
  };
  const { code } = await bundleWorkflowCode({ workflowsPath: entry, failureConverterPath: failureConverterPath(), logger });
  const temporaryFile = `${target}.${randomUUID()}`;
  await writeFile(temporaryFile, code, { mode: 0o600 });
  await rename(temporaryFile, target);
}

export function runWorker(options: TemporalOptions, spec: WorkerSpec): RunningWorker {
  const { logger } = options;
  const stopping = new AbortController();
  let worker: Worker | null = null;
  const running = supervise(runOnce, {
    signal: stopping.signal,
    onFailure: (error) =>
      logger.warn(
        { err: error, queue: spec.queue },
        `the Temporal worker does not run: ${errorSummary(error)}; trying again until it does`,
      ),
  });
  return {
    isPolling: () => worker?.getState() === 'RUNNING',
    async stop() {
      stopping.abort();
      if (worker?.getState() === 'RUNNING') worker.shutdown();
      // A connection that is being made to an address that swallows packets cannot be called off; the process need not wait for it.
      await Promise.race([running, sleep(stopTimeoutMs, undefined, { ref: false })]);
    },
  };

  async function runOnce(): Promise<void> {
    installRuntime(logger);
    const codePath = await spec.bundle(stopping.signal);
    const connection = await NativeConnection.connect(connectionOptions(options));
    try {
      worker = await Worker.create({
        ...workerOptions(spec, { dataConverter: createDataConverter(options.payloadKeys), logger }),
        connection,
        namespace: options.namespace,
        workflowBundle: { codePath },
      });
      const run = worker.run();
      // A worker that was created can only be let go by running it, so a stop that came meanwhile is done here.
      if (stopping.signal.aborted) worker.shutdown();
      else logger.info({ queue: spec.queue, namespace: options.namespace }, 'the Temporal worker runs');
      await run;
    } finally {
      worker = null;
      await connection.close();
    }
  }
}

/** Gives the SDK's one runtime our logger, before its first use. It is there for as long as a worker or native connection is. */
export function installRuntime(logger: Logger): void {
  if (Runtime._instance !== undefined) return;
  Runtime.install({
    logger: createSdkLogger(logger),
    telemetryOptions: { logging: { filter: { core: 'WARN', other: 'ERROR' }, forward: {} } },
    workerHeartbeatInterval: 0,
    shutdownSignals: [], // The application decides when to stop, and in which order.
  });
}
