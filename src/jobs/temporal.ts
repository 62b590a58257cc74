/**
 * The only file that speaks to Temporal: the client that starts workflows, and the worker that runs them.
 *
 * A server that is away costs nothing but time. The client's channel connects again by itself, and each request ends after five seconds
 * whatever happens. A running worker's pollers go on asking by themselves (that is the SDK's own work); a worker that ends nevertheless is
 * made again with growing pauses.
 */
import { randomUUID } from 'node:crypto';
import { rename, writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  Client,
  Connection,
  type ConnectionOptions,
  isGrpcServiceError,
  NamespaceNotFoundError,
  WorkflowExecutionAlreadyStartedError,
} from '@temporalio/client';
import type { SearchAttributePair } from '@temporalio/common';
import { msToTs } from '@temporalio/common/lib/time.js';
import { bundleWorkflowCode, NativeConnection, Runtime, Worker } from '@temporalio/worker';
import { workflowQueues } from '../../workflows/contract.ts';
import { isObject } from '../core/json.ts';
import type { OutboxEntry } from '../db/outbox.ts';
import type { Logger } from '../observability/logger.ts';
import { createDataConverter, failureConverterPath } from './data-converter.ts';
import { reasonOf } from './faults.ts';
import { keepRunning } from './keep-running.ts';
import { StartRefused } from './outbox-rows.ts';
import { checkPayload, PayloadRefused } from './payloads.ts';
import { createSearchAttributes, type SearchAttributes } from './search-attributes.ts';
import { createSdkLogger } from './temporal-log.ts';
import { type WorkerPlan, workerOptions } from './worker-plan.ts';

export interface TemporalOptions {
  readonly address: string;
  readonly namespace: string;
  readonly tls?: ConnectionOptions['tls'];
  readonly apiKey?: string;
  /** Keys of 32 bytes: payloads are encrypted with the first of them. */
  readonly payloadKeys?: readonly Uint8Array[];
  readonly logger: Logger;
}

type Place = Pick<TemporalOptions, 'address' | 'tls' | 'apiKey'>;

export interface RunningWorker {
  /** Whether it polls at this moment; while Temporal is away it does, in vain. */
  polls(): boolean;
  stop(): Promise<void>;
}

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
  deleteRuns(workflowId: string, noteFound: (count: number) => Promise<void>): Promise<void>;
  /** Runs a worker in the background until it is stopped. */
  startWorker(plan: WorkerPlan): RunningWorker;
  /** Closes the client; stop workers first. */
  close(): Promise<void>;
}

const requestLimitMs = 5_000;
const stopLimitMs = 25_000;
const retentionMs = 3 * 24 * 3_600_000; // Short, since erasure cannot reach into histories (lessons 49).

/** gRPC's numbers for refusals that come from the request itself; with all others Temporal counts as away. */
const requestFaults: readonly unknown[] = [3 /* INVALID_ARGUMENT */, 9 /* FAILED_PRECONDITION */, 11 /* OUT_OF_RANGE */];
const notFound = 5;
const alreadyExists = 6;
const resourceExhausted = 8;
/** The number of the type Keyword of search attributes. */
const keyword = 2;

export function createTemporal(options: TemporalOptions): Temporal {
  const { namespace, logger } = options;
  const connection = connect(options);
  const client = new Client({ connection, namespace, dataConverter: createDataConverter(options.payloadKeys) });

  const attributes = createSearchAttributes(
    (names) => within(connection, () => registerSearchAttributes(connection, namespace, names)),
    logger,
  );

  return {
    client,
    async probe() {
      try {
        await within(connection, () => ensureNamespace(connection, namespace, logger));
      } catch (error) {
        attributes.forget();
        throw error;
      }
      await attributes.prepare();
    },
    start: (entry, { delayMs = 0 } = {}) => within(connection, () => startEntry(client, entry, { attributes, delayMs })),
    deleteRuns: (workflowId, noteFound) => within(connection, () => deleteRuns(client, workflowId, noteFound)),
    startWorker: (plan) => runWorker(options, plan),
    close: () => connection.close(),
  };
}

/** Whether a server at this address has this namespace. Never throws: no answer is no. */
export async function answersWith(address: string, namespace: string): Promise<boolean> {
  const connection = connect({ address });
  try {
    await within(connection, () => connection.workflowService.describeNamespace({ namespace }));
    return true;
  } catch {
    return false; // Not up yet, or another's server: the caller asks again or ends it.
  } finally {
    await connection.close();
  }
}

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
  const unfinished = `${target}.${randomUUID()}`;
  await writeFile(unfinished, code, { mode: 0o600 });
  await rename(unfinished, target);
}

function connect(options: Place): Connection {
  return Connection.lazy({
    ...placeOf(options),
    // No retries in the client: who calls has its own, and must notice at once that the server is away.
    interceptors: [],
    // gRPC's own default lets a channel rest for two minutes before it looks for a server that came back.
    channelArgs: { 'grpc.initial_reconnect_backoff_ms': 200, 'grpc.max_reconnect_backoff_ms': 2_000 },
  });
}

/** The members that both kinds of connection understand; an absent one must not be there as undefined. */
function placeOf({ address, tls, apiKey }: Place): { address: string; tls?: Exclude<Place['tls'], undefined>; apiKey?: string } {
  return { address, ...(tls !== undefined && { tls }), ...(apiKey !== undefined && { apiKey }) };
}

function within<Result>(connection: Connection, request: () => Promise<Result>): Promise<Result> {
  return connection.withAbortSignal(AbortSignal.timeout(requestLimitMs), request);
}

async function ensureNamespace({ workflowService }: Connection, namespace: string, logger: Logger): Promise<void> {
  try {
    await workflowService.describeNamespace({ namespace });
  } catch (error) {
    if (!isMissingNamespace(error)) throw error;
    try {
      await workflowService.registerNamespace({ namespace, workflowExecutionRetentionPeriod: msToTs(retentionMs) });
      logger.info({ namespace }, 'created the Temporal namespace');
    } catch (cause) {
      if (grpcCodeOf(cause) === alreadyExists) return;
      throw new Error(`the Temporal namespace ${namespace} does not exist and cannot be created (${reasonOf(cause)})`, { cause });
    }
  }
}

/** They are known to a server for a whole namespace; one that knows them already says so. */
async function registerSearchAttributes({ operatorService }: Connection, namespace: string, names: readonly string[]): Promise<void> {
  const { customAttributes } = await operatorService.listSearchAttributes({ namespace });
  const missing = names.filter((name) => !Object.hasOwn(customAttributes, name));
  if (missing.length === 0) return;
  try {
    await operatorService.addSearchAttributes({ namespace, searchAttributes: Object.fromEntries(missing.map((name) => [name, keyword])) });
  } catch (error) {
    if (grpcCodeOf(error) !== alreadyExists) throw error; // Another process of ours was faster.
  }
}

/** A run that ends at this very moment, or goes on as new, takes no signal; the next one does. */
async function outsideOfEnds(start: () => Promise<void>): Promise<void> {
  for (let pauseMs = 50; ; pauseMs *= 2) {
    try {
      return await start();
    } catch (error) {
      if (grpcCodeOf(error) !== resourceExhausted || pauseMs > 500) throw error;
      await sleep(pauseMs);
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
  if (queue === undefined) throw new StartRefused(`there is no workflow ${workflow}`);
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
    const known = attributes.of(entry);
    try {
      await outsideOfEnds(() => start(known));
    } catch (error) {
      if (known === undefined || !requestFaults.includes(grpcCodeOf(error))) throw error;
      // It may be the attributes that the server refuses.
      attributes.suspend();
      await start(undefined);
    }
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return;
    if (error instanceof PayloadRefused || requestFaults.includes(grpcCodeOf(error)))
      throw new StartRefused(reasonOf(error), { cause: error });
    throw error;
  }
}

async function deleteRuns(client: Client, workflowId: string, noteFound: Parameters<Temporal['deleteRuns']>[1]): Promise<void> {
  checkPayload(workflowId); // It stands in a query: nothing but what ids are made of.
  const { namespace } = client.options;
  const runs = await Array.fromAsync(client.workflow.list({ query: `WorkflowId = "${workflowId}"` }));
  await noteFound(runs.length);
  for (const { runId } of runs) {
    try {
      await client.workflowService.deleteWorkflowExecution({ namespace, workflowExecution: { workflowId, runId } });
    } catch (error) {
      if (grpcCodeOf(error) !== notFound) throw error; // Gone by itself meanwhile.
    }
  }
}

function runWorker(options: TemporalOptions, plan: WorkerPlan): RunningWorker {
  const { logger } = options;
  const stopping = new AbortController();
  let worker: Worker | null = null;
  const running = keepRunning(runOnce, {
    signal: stopping.signal,
    onFailure: (error) =>
      logger.warn({ err: error, queue: plan.queue }, `the Temporal worker does not run: ${reasonOf(error)}; trying again until it does`),
  });
  return {
    polls: () => worker?.getState() === 'RUNNING',
    async stop() {
      stopping.abort();
      if (worker?.getState() === 'RUNNING') worker.shutdown();
      // A connection that is being made to an address that swallows packets cannot be called off; the process need not wait for it.
      await Promise.race([running, sleep(stopLimitMs, undefined, { ref: false })]);
    },
  };

  async function runOnce(): Promise<void> {
    installRuntime(logger);
    const codePath = await plan.bundle(stopping.signal);
    const connection = await NativeConnection.connect(placeOf(options));
    try {
      worker = await Worker.create({
        ...workerOptions(plan, { dataConverter: createDataConverter(options.payloadKeys), logger }),
        connection,
        namespace: options.namespace,
        workflowBundle: { codePath },
      });
      const run = worker.run();
      // A worker that was created can only be let go by running it, so a stop that came meanwhile is done here.
      if (stopping.signal.aborted) worker.shutdown();
      else logger.info({ queue: plan.queue, namespace: options.namespace }, 'the Temporal worker runs');
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

function isMissingNamespace(error: unknown): boolean {
  return error instanceof NamespaceNotFoundError || grpcCodeOf(error) === notFound;
}

/** gRPC's status number of an error or of what it wraps. */
export function grpcCodeOf(error: unknown): unknown {
  if (isGrpcServiceError(error)) return error.code;
  return isObject(error) && error['cause'] !== undefined ? grpcCodeOf(error['cause']) : undefined;
}
