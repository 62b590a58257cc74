/**
 * Runs Temporal workers. This installs the SDK's runtime, builds the workflow bundle, and recreates the worker if it
 * stops unexpectedly.
 */
import { randomUUID } from 'node:crypto';
import { rename, writeFile } from 'node:fs/promises';
import { dirname, extname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Worker } from '@temporalio/worker';
import { memoryQueue } from '../../../workflows/contract.ts';
import { backoffMs } from '../../core/backoff.ts';
import { pause } from '../../core/time-limit.ts';
import type { Logger } from '../../observability/logger.ts';
import { connectionOptions, type TemporalOptions } from '../connection/temporal-connection.ts';
import { createSdkLogger } from '../connection/temporal-log.ts';
import { createDataConverter, failureConverterPath } from '../payloads/data-converter.ts';
import { type WorkerSpec, workerOptions } from './worker-options.ts';

export type RunningWorker = ReturnType<typeof runWorker>;

/**
 * If the worker still hasn't stopped this long after the grace period, we give up waiting. It has to be longer than the
 * 5 s that the SDK itself waits for activities that it has cancelled.
 */
const stopTimeoutMs = 10_000;

/**
 * Loads the SDK's worker on demand. It makes up half of the modules that a process would load at startup, and a process
 * without a worker doesn't need it.
 */
export async function loadWorkerSdk(): Promise<typeof import('@temporalio/worker')> {
  return import('@temporalio/worker');
}

/**
 * Builds the workflow bundle and writes it to a file. `workflow-bundle.ts` calls this function by its name, in a child
 * process.
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

function tracingPath(entry: string): string {
  return join(dirname(entry), `tracing${extname(entry)}`);
}

export function runWorker(options: TemporalOptions, spec: WorkerSpec) {
  const { logger } = options;
  const stopping = new AbortController();
  let worker: Worker | null = null;
  const running = supervise(runOnce, {
    signal: stopping.signal,
    onFailure: (error) => logger.warn({ err: error, queue: memoryQueue }, 'Temporal worker failed; retrying'),
  });
  return {
    /** Checks whether the worker is polling. It keeps polling even while Temporal is unavailable. */
    isPolling: (): boolean => worker?.getState() === 'RUNNING',
    async stop(): Promise<void> {
      stopping.abort();
      if (worker?.getState() === 'RUNNING') worker.shutdown();
      // Don't wait forever, because the SDK can't cancel an attempt to connect to an address that drops packets.
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
      // If we were stopped in the meantime, shut the worker down, but still wait for `run`. The SDK doesn't release its
      // resources before `run` ends.
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
 * Installs our logger in the SDK's runtime, which has to happen before the runtime is first used. There's a single
 * runtime, and it lives as long as any worker or native connection.
 */
export async function installRuntime(logger: Logger): Promise<void> {
  const { Runtime } = await loadWorkerSdk();
  if (Runtime._instance !== undefined) return;
  Runtime.install({
    logger: createSdkLogger(logger),
    telemetryOptions: { logging: { filter: { core: 'WARN', other: 'ERROR' }, forward: {} } },
    workerHeartbeatInterval: 0,
    // Keep the SDK from handling signals. The application handles them itself, because it has to stop its parts in a
    // certain order.
    shutdownSignals: [],
  });
}

const backoff = { initialMs: 500, maxMs: 15_000 };
/**
 * If a run fails after it has lasted at least this long, we count its failure as the first one, so the backoff starts
 * over.
 */
const healthyAfterMs = 60_000;

/**
 * Runs a task and restarts it with backoff if it fails. Resolves once the signal is aborted and `run` has ended.
 * `onFailure` is only called for the first of several failures in a row.
 */
async function supervise(
  run: () => Promise<void>,
  { signal, onFailure }: { signal: AbortSignal; onFailure: (error: unknown) => void },
): Promise<void> {
  for (let failures = 0; !signal.aborted; ) {
    const startedAt = performance.now();
    try {
      await run();
    } catch (error) {
      if (signal.aborted) return;
      failures = performance.now() - startedAt > healthyAfterMs ? 1 : failures + 1;
      if (failures === 1) onFailure(error);
      await pause(backoffMs(failures, backoff), signal);
    }
  }
}
