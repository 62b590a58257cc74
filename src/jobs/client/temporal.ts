/**
 * Temporal: the client that starts workflows, and the worker that runs them. Only this file, `temporal-connection.ts` and
 * `temporal-worker.ts` speak to it.
 *
 * A server that is away costs nothing but time. The client's channel connects again by itself, and each request ends after five seconds
 * whatever happens. A running worker's pollers go on asking by themselves (that is the SDK's own work); a worker that ends nevertheless is
 * made again with growing pauses.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import type { SearchAttributePair } from '@temporalio/common';
import { workflowQueues } from '../../../workflows/contract.ts';
import { errorSummary } from '../../core/error-messages.ts';
import type { OutboxEntry } from '../../db/outbox.ts';
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
import { createDataConverter } from '../payloads/data-converter.ts';
import { checkPayload, PayloadRejectedError } from '../payloads/payloads.ts';
import { type RunningWorker, runWorker } from '../worker/temporal-worker.ts';
import type { WorkerSpec } from '../worker/worker-options.ts';
import { createSearchAttributes, type SearchAttributes } from './search-attributes.ts';

export interface StartOptions {
  /** How long the server waits with the first workflow task; an entry with a signal is not delayed. */
  readonly delayMs?: number;
}

export interface Temporal {
  /** The SDK's client, for what has no function here. Its payloads pass our codec. */
  readonly client: Client;
  /** Resolves when the server answers and has the namespace, which is created where that is allowed. */
  probe(): Promise<void>;
  /** Starts the entry's workflow unless it runs, and sends its signal if it has one. Throws `StartRefused` when this entry can never start, anything else when Temporal is away. */
  start(entry: OutboxEntry, options?: StartOptions): Promise<void>;
  /** Deletes all runs of this workflow id, with their histories, once it is noted how many there are. */
  deleteRuns(workflowId: string, recordRuns: (count: number) => Promise<void>): Promise<void>;
  /** Runs a worker in the background until it is stopped. */
  startWorker(spec: WorkerSpec): RunningWorker;
  /** Closes the client; stop workers first. */
  close(): Promise<void>;
}

/** Refusals that come from the request itself; with all others Temporal counts as away. */
const permanentCodes: readonly unknown[] = [grpcStatus.invalidArgument, grpcStatus.failedPrecondition, grpcStatus.outOfRange];

export function createTemporal(options: TemporalOptions): Temporal {
  const { namespace, logger } = options;
  const connection = connect(options);
  const client = new Client({ connection, namespace, dataConverter: createDataConverter(options.payloadKeys) });

  const attributes = createSearchAttributes(
    (names) => withRequestTimeout(connection, () => registerSearchAttributes(connection, namespace, names)),
    logger,
  );

  return {
    client,
    async probe() {
      try {
        await withRequestTimeout(connection, () => ensureNamespace(connection, namespace, logger));
      } catch (error) {
        attributes.reset();
        throw error;
      }
      await attributes.ensureRegistered();
    },
    start: (entry, { delayMs = 0 } = {}) => withRequestTimeout(connection, () => startEntry(client, entry, { attributes, delayMs })),
    deleteRuns: (workflowId, recordRuns) => withRequestTimeout(connection, () => deleteRuns(client, workflowId, recordRuns)),
    startWorker: (spec) => runWorker(options, spec),
    close: () => connection.close(),
  };
}

/** A run that ends at this very moment, or goes on as new, takes no signal; the next one does. */
async function retryWhileClosing(start: () => Promise<void>): Promise<void> {
  for (let backoffMs = 50; ; backoffMs *= 2) {
    try {
      return await start();
    } catch (error) {
      if (grpcCodeOf(error) !== grpcStatus.resourceExhausted || backoffMs > 500) throw error;
      await sleep(backoffMs);
    }
  }
}

async function startEntry(
  client: Client,
  entry: OutboxEntry,
  { attributes, delayMs }: { attributes: SearchAttributes; delayMs: number },
): Promise<void> {
  const { workflow, workflowId, input, signal } = entry;
  const queue = Object.entries(workflowQueues).find(([name]) => name === workflow)?.[1];
  if (queue === undefined) throw new PermanentStartError(`there is no workflow ${workflow}`);
  const start = async (typedSearchAttributes: SearchAttributePair[] | undefined): Promise<void> => {
    const options = {
      workflowId,
      taskQueue: queue,
      args: [input],
      workflowIdReusePolicy: 'ALLOW_DUPLICATE',
      workflowIdConflictPolicy: 'USE_EXISTING',
      ...(typedSearchAttributes && { typedSearchAttributes }),
    } as const;
    if (signal) await client.workflow.signalWithStart(workflow, { ...options, signal: signal.name, signalArgs: [signal.input] });
    else await client.workflow.start(workflow, { ...options, ...(delayMs > 0 && { startDelay: Math.ceil(delayMs) }) });
  };
  try {
    checkPayload(workflowId);
    checkPayload(input);
    checkPayload(signal);
    const registeredAttributes = attributes.attributesFor(entry);
    try {
      await retryWhileClosing(() => start(registeredAttributes));
    } catch (error) {
      if (registeredAttributes === undefined || !permanentCodes.includes(grpcCodeOf(error))) throw error;
      // It may be the attributes that the server refuses.
      attributes.disable();
      await start(undefined);
    }
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return;
    if (error instanceof PayloadRejectedError || permanentCodes.includes(grpcCodeOf(error)))
      throw new PermanentStartError(errorSummary(error), { cause: error });
    throw error;
  }
}

async function deleteRuns(client: Client, workflowId: string, recordRuns: Parameters<Temporal['deleteRuns']>[1]): Promise<void> {
  checkPayload(workflowId); // It stands in a query: nothing but what ids are made of.
  const { namespace } = client.options;
  const runs = await Array.fromAsync(client.workflow.list({ query: `WorkflowId = "${workflowId}"` }));
  await recordRuns(runs.length);
  for (const { runId } of runs) {
    try {
      await client.workflowService.deleteWorkflowExecution({ namespace, workflowExecution: { workflowId, runId } });
    } catch (error) {
      if (grpcCodeOf(error) !== grpcStatus.notFound) throw error; // Gone by itself meanwhile.
    }
  }
}
