/**
 * Creates the Temporal client that starts workflows, and the worker that runs them. Only this file,
 * `temporal-connection.ts` and `temporal-worker.ts` import the SDK's client and worker.
 *
 * If the server is unavailable, work is only delayed. The client's channel reconnects automatically, and each request
 * times out after five seconds. The pollers of a running worker retry inside the SDK, and if a worker ends anyway, we
 * recreate it with backoff.
 */
import { Client, type ClientInterceptors, WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import { memoryQueue, replaySignal, searchAttributes, type WorkflowName, workflowNames } from '../../../workflows/contract.ts';
import { retry } from '../../core/backoff.ts';
import { errorSummary } from '../../core/error-messages.ts';
import {
  connect,
  ensureNamespace,
  grpcCodeOf,
  grpcStatus,
  registerSearchAttributes,
  type TemporalOptions,
  withRequestTimeout,
} from '../connection/temporal-connection.ts';
import { PermanentStartError } from '../outbox/outbox-rows.ts';
import { createDataConverter, createWriteOnlyDataConverter } from '../payloads/data-converter.ts';
import { checkPayload, PayloadRejectedError } from '../payloads/payloads.ts';
import { withTraceHeader } from '../payloads/trace-header.ts';
import { type RunningWorker, runWorker } from '../worker/temporal-worker.ts';
import type { WorkerSpec } from '../worker/worker-options.ts';
import { describeRun, type StartEntry } from './describe-run.ts';
import { createSearchAttributes, type SearchAttributes } from './search-attributes.ts';
import { readTaskQueue, type TaskQueueState } from './task-queue.ts';

export interface Temporal {
  /**
   * The SDK's client, for operations that have no function in this interface. Its payloads pass through the gateway's
   * codecs.
   */
  readonly client: Client;
  /**
   * Decodes every payload as undefined, so that it can list, describe and update things even if this process lacks the
   * payload key.
   */
  readonly writeOnlyClient: Client;
  /** Returns only the search attributes that the server knows, because starts with other attributes are rejected. */
  readonly filterAttributes: SearchAttributes['filter'];
  /**
   * Resolves once the server responds and has the namespace. Creates the namespace if the options allow it, and throws
   * `MissingNamespaceError` otherwise.
   */
  probe(): Promise<void>;
  /**
   * Starts the entry's workflow unless it's running, and sends its signal if it has one. Without a signal, the server
   * delays the first workflow task by `delayMs`. Returns false if we don't start it because its latest run has ended,
   * which happens to batches unless `again` is set or the entry is a replay. Throws `PermanentStartError` if a retry
   * can't succeed, and any other error if Temporal is unavailable.
   */
  start(entry: StartEntry, options?: StartOptions): Promise<boolean>;
  /** Reads the current state of the task queue from the server. */
  readTaskQueue(): Promise<TaskQueueState>;
  /**
   * Calls `recordRuns` with the number of runs that have this workflow id, and then deletes them and their histories.
   */
  deleteRuns(workflowId: string, recordRuns: (count: number) => Promise<void>): Promise<void>;
  /** Runs a worker in the background until it's stopped. */
  startWorker(spec: WorkerSpec): RunningWorker;
  /** Closes the client. Stop all workers first. */
  close(): Promise<void>;
}

export interface StartOptions {
  readonly delayMs?: number;
  /** Starts a batch even if one of its runs has ended. */
  readonly again?: boolean;
}

const attributeNames = Object.values(searchAttributes).map(({ name }) => name);

/**
 * Codes with which the server rejects the request itself. We take every other error to mean that Temporal is
 * unavailable.
 */
const permanentCodes: readonly unknown[] = [grpcStatus.invalidArgument, grpcStatus.failedPrecondition, grpcStatus.outOfRange];

const interceptors: ClientInterceptors = {
  workflow: [
    {
      start: (input, next) => next({ ...input, headers: withTraceHeader(input.headers) }),
      signalWithStart: (input, next) => next({ ...input, headers: withTraceHeader(input.headers) }),
    },
  ],
};

export function createTemporal(options: TemporalOptions): Temporal {
  const { namespace, logger, payloadKeys, onMissingKey } = options;
  const connection = connect(options);
  const client = new Client({ connection, namespace, dataConverter: createDataConverter(payloadKeys, onMissingKey), interceptors });
  const writeOnlyClient = new Client({ connection, namespace, dataConverter: createWriteOnlyDataConverter(payloadKeys) });

  const attributes = createSearchAttributes(
    attributeNames,
    () => withRequestTimeout(connection, () => registerSearchAttributes(connection, namespace, attributeNames)),
    logger,
  );

  return {
    client,
    writeOnlyClient,
    filterAttributes: attributes.filter,
    async probe() {
      try {
        await withRequestTimeout(connection, () => ensureNamespace(connection, options));
      } catch (error) {
        attributes.reset();
        throw error;
      }
      await attributes.ensureRegistered();
    },
    start: (entry, startOptions = {}) => withRequestTimeout(connection, () => startEntry(client, entry, { ...startOptions, attributes })),
    readTaskQueue: () => withRequestTimeout(connection, () => readTaskQueue(connection, namespace)),
    deleteRuns: (workflowId, recordRuns) => withRequestTimeout(connection, () => deleteRuns(writeOnlyClient, workflowId, recordRuns)),
    startWorker: (spec) => runWorker(options, spec),
    close: () => connection.close(),
  };
}

/** A run rejects signals while it's closing or continuing as new. The next run accepts them, so we retry. */
function retryWhileClosing(start: () => Promise<void>): Promise<void> {
  return retry(start, { delays: [50, 100, 200, 400], isRetryable: (error) => grpcCodeOf(error) === grpcStatus.resourceExhausted });
}

async function startEntry(
  client: Client,
  entry: StartEntry,
  { attributes, delayMs = 0, again = false }: StartOptions & { readonly attributes: SearchAttributes },
): Promise<boolean> {
  const { workflow, workflowId, input, signal, projectId } = entry;
  if (!isWorkflowName(workflow)) throw new PermanentStartError(`unknown workflow ${workflow}`);
  const { searchAttributes: typedSearchAttributes, ...description } = describeRun(workflow, entry);
  const start = async (withAttributes: boolean): Promise<void> => {
    const options = {
      workflowId,
      taskQueue: memoryQueue,
      args: [input],
      workflowIdReusePolicy: again || mayStartAgain(entry) ? 'ALLOW_DUPLICATE' : 'REJECT_DUPLICATE',
      workflowIdConflictPolicy: 'USE_EXISTING',
      ...description,
      // Servers before 1.29 ignore this. Activities inherit the key of their run.
      ...(projectId !== undefined && { priority: { fairnessKey: projectId } }),
      ...(withAttributes && { typedSearchAttributes: attributes.filter(typedSearchAttributes) }),
    } as const;
    if (signal) await client.workflow.signalWithStart(workflow, { ...options, signal: signal.name, signalArgs: [signal.input] });
    else await client.workflow.start(workflow, { ...options, ...(delayMs > 0 && { startDelay: Math.ceil(delayMs) }) });
  };
  try {
    checkPayload(workflowId);
    checkPayload(input);
    checkPayload(signal);
    const withAttributes = attributes.areUsable();
    try {
      await retryWhileClosing(() => start(withAttributes));
    } catch (error) {
      if (!withAttributes || !permanentCodes.includes(grpcCodeOf(error))) throw error;
      await retryWhileClosing(() => start(false));
      // The server has rejected the search attributes.
      attributes.disable();
    }
    return true;
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return false;
    if (error instanceof PayloadRejectedError || permanentCodes.includes(grpcCodeOf(error)))
      throw new PermanentStartError(errorSummary(error), { cause: error });
    throw error;
  }
}

/**
 * If an operator has terminated the run of a batch, they want it to stay ended, so only a replay may start it again.
 * `startOpenWork` overrides this if the tables show that work is left.
 */
function mayStartAgain({ workflow, signal }: StartEntry): boolean {
  return workflow !== 'learningBatch' || signal?.name === replaySignal;
}

function isWorkflowName(name: string): name is WorkflowName {
  return workflowNames.some((each) => each === name);
}

async function deleteRuns(client: Client, workflowId: string, recordRuns: Parameters<Temporal['deleteRuns']>[1]): Promise<void> {
  // We interpolate the id into a query, so make sure that it only contains id characters.
  checkPayload(workflowId);
  const { namespace } = client.options;
  const runs = await Array.fromAsync(client.workflow.list({ query: `WorkflowId = "${workflowId}"` }));
  await recordRuns(runs.length);
  for (const { runId } of runs) {
    try {
      await client.workflowService.deleteWorkflowExecution({ namespace, workflowExecution: { workflowId, runId } });
    } catch (error) {
      // Ignore runs that were deleted in the meantime.
      if (grpcCodeOf(error) !== grpcStatus.notFound) throw error;
    }
  }
}
