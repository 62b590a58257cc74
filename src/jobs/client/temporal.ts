/**
 * The Temporal client that starts workflows, and the worker that runs them. Only this file, `temporal-connection.ts` and `temporal-worker.ts`
 * import the SDK's client and worker.
 *
 * An unavailable server only delays work. The client's channel reconnects automatically, and each request times out after five seconds. A
 * running worker's pollers retry inside the SDK; a worker that ends nevertheless is recreated with backoff.
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
  /** The SDK's client, for operations without a function here. Its payloads pass the gateway's codecs. */
  readonly client: Client;
  /** Decodes every payload as undefined, so it lists, describes and updates what needs a payload key that this process lacks. */
  readonly writeOnlyClient: Client;
  /** Those of the gateway's search attributes that the server has, so that starts may have them. */
  readonly filterAttributes: SearchAttributes['filter'];
  /** Resolves when the server responds and has the namespace, which is created if the options say so. Throws `MissingNamespaceError`. */
  probe(): Promise<void>;
  /**
   * Starts the entry's workflow unless it runs, and sends its signal if any. Without a signal, the server delays the first workflow task by
   * `delayMs`. False: refused, because the newest run has ended and neither the entry is a replay nor `again` is set. Throws
   * `PermanentStartError` when retrying cannot succeed, any other error when Temporal is unavailable.
   */
  start(entry: StartEntry, options?: StartOptions): Promise<boolean>;
  /** What the server says of the task queue now. */
  readTaskQueue(): Promise<TaskQueueState>;
  /** Deletes all runs of this workflow id with their histories, after `recordRuns` has stored their number. */
  deleteRuns(workflowId: string, recordRuns: (count: number) => Promise<void>): Promise<void>;
  /** Runs a worker in the background until it is stopped. */
  startWorker(spec: WorkerSpec): RunningWorker;
  /** Closes the client; stop workers first. */
  close(): Promise<void>;
}

export interface StartOptions {
  readonly delayMs?: number;
  /** Starts a batch although a run of it has ended. */
  readonly again?: boolean;
}

const attributeNames = Object.values(searchAttributes).map(({ name }) => name);

/** Codes by which the server rejects the request itself. Every other error means that Temporal is unavailable. */
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

/** Retries while a run is closing or continuing as new, which rejects signals; the next run accepts them. */
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
      // Servers before 1.29 ignore it. Activities have the key of their run.
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
      attributes.disable(); // The server has rejected the search attributes.
    }
    return true;
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return false;
    if (error instanceof PayloadRejectedError || permanentCodes.includes(grpcCodeOf(error)))
      throw new PermanentStartError(errorSummary(error), { cause: error });
    throw error;
  }
}

/** Unless the tables show that work is left, only a replay starts a batch again: an operator who terminated its run wants it to stay ended. */
function mayStartAgain({ workflow, signal }: StartEntry): boolean {
  return workflow !== 'learningBatch' || signal?.name === replaySignal;
}

function isWorkflowName(name: string): name is WorkflowName {
  return workflowNames.some((each) => each === name);
}

async function deleteRuns(client: Client, workflowId: string, recordRuns: Parameters<Temporal['deleteRuns']>[1]): Promise<void> {
  checkPayload(workflowId); // Interpolated into a query: id characters only.
  const { namespace } = client.options;
  const runs = await Array.fromAsync(client.workflow.list({ query: `WorkflowId = "${workflowId}"` }));
  await recordRuns(runs.length);
  for (const { runId } of runs) {
    try {
      await client.workflowService.deleteWorkflowExecution({ namespace, workflowExecution: { workflowId, runId } });
    } catch (error) {
      if (grpcCodeOf(error) !== grpcStatus.notFound) throw error; // Deleted in the meantime.
    }
  }
}
