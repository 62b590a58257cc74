/**
 * Creates the Temporal client that starts workflows, and the worker that runs them. Only this file,
 * `temporal-connection.ts` and `temporal-worker.ts` may import the SDK's client and worker.
 *
 * If the server is unavailable, work is delayed but not lost. Requests time out after five seconds, and the client
 * reconnects automatically. The SDK keeps polling as long as a worker is running. If the worker stops anyway, we
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
import { runWorker } from '../worker/temporal-worker.ts';
import type { WorkerSpec } from '../worker/worker-options.ts';
import { describeRun, type StartEntry } from './describe-run.ts';
import { createSearchAttributes, type SearchAttributes } from './search-attributes.ts';
import { readTaskQueue } from './task-queue.ts';

export type Temporal = ReturnType<typeof createTemporal>;

export interface StartOptions {
  readonly delayMs?: number;
  /** Set to true to start the learning batch again if an earlier run of it has already ended. */
  readonly again?: boolean;
}

const attributeNames = Object.values(searchAttributes).map(({ name }) => name);

/**
 * With these status codes, the server tells us that the request itself is wrong. For any other error, we assume that
 * Temporal is down.
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

export function createTemporal(options: TemporalOptions) {
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
    /** The SDK's own client, with the gateway's payload codecs. Use it for requests that this object doesn't offer. */
    client,
    /**
     * A client that decodes every payload as undefined, so it can list, describe and update runs and schedules even
     * without the payload key.
     */
    writeOnlyClient,
    /** Removes search attributes that aren't registered, because the server would reject them. */
    filterAttributes: attributes.filter,
    /**
     * Resolves once the server responds and the namespace exists. If it's missing, we create it, or throw
     * `MissingNamespaceError` if the options don't allow that.
     */
    async probe(): Promise<void> {
      try {
        await withRequestTimeout(connection, () => ensureNamespace(connection, options));
      } catch (error) {
        attributes.reset();
        throw error;
      }
      await attributes.ensureRegistered();
    },
    /**
     * Starts the entry's workflow unless it's already running, and sends the entry's signal if it has one. Without a
     * signal, the server delays the first workflow task by `delayMs`.
     *
     * Returns false if the workflow's latest run has ended and we aren't allowed to start another one. That's the case
     * for learning batches, unless `again` is set or the entry is a replay. Throws `PermanentStartError` if it's no use
     * trying again. Any other error means that Temporal is unavailable.
     */
    start: (entry: StartEntry, startOptions: StartOptions = {}) =>
      withRequestTimeout(connection, () => startEntry(client, entry, { ...startOptions, attributes })),
    readTaskQueue: () => withRequestTimeout(connection, () => readTaskQueue(connection, namespace)),
    /**
     * Counts the runs of this workflow id and passes the number to `recordRuns`. After that, it deletes the runs and
     * their histories.
     */
    deleteRuns: (workflowId: string, recordRuns: RecordRuns) =>
      withRequestTimeout(connection, () => deleteRuns(writeOnlyClient, workflowId, recordRuns)),
    startWorker: (spec: WorkerSpec) => runWorker(options, spec),
    /** Closes the connection. Stop all workers first. */
    close: () => connection.close(),
  };
}

/**
 * Retries a signal that was rejected because the run is just closing or continuing as new. The next run will accept it.
 */
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
      // The fairness key is inherited by the run's activities. Servers older than 1.29 ignore it.
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
      // The start succeeded without the search attributes, so they were the reason why the first start was rejected.
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
 * Checks whether we may start a workflow again after its latest run has ended. If an operator has terminated a learning
 * batch, we assume that they don't want it to continue, so we only start it again for a replay. `startOpenWork` makes
 * an exception if the tables show that there's work left.
 */
function mayStartAgain({ workflow, signal }: StartEntry): boolean {
  return workflow !== 'learningBatch' || signal?.name === replaySignal;
}

function isWorkflowName(name: string): name is WorkflowName {
  return workflowNames.some((each) => each === name);
}

type RecordRuns = (count: number) => Promise<void>;

async function deleteRuns(client: Client, workflowId: string, recordRuns: RecordRuns): Promise<void> {
  // The id becomes part of a query. This throws if it's anything but an id.
  checkPayload(workflowId);
  const { namespace } = client.options;
  const runs = await Array.fromAsync(client.workflow.list({ query: `WorkflowId = "${workflowId}"` }));
  await recordRuns(runs.length);
  for (const { runId } of runs) {
    try {
      await client.workflowService.deleteWorkflowExecution({ namespace, workflowExecution: { workflowId, runId } });
    } catch (error) {
      // Ignore this if somebody else has deleted the run in the meantime.
      if (grpcCodeOf(error) !== grpcStatus.notFound) throw error;
    }
  }
}
