/**
 * Starts and stops everything that durable work needs. This finds or installs Temporal, runs the dev server if no
 * server is configured, and then connects the client, worker and dispatcher.
 *
 * All of this happens in the background and never makes a start fail. The API serves calls right away, work for
 * workflows waits in the outbox, and `state` reports the progress.
 */
import { backoffDelays, retry } from '../core/backoff.ts';
import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';
import type { Logger } from '../observability/logger.ts';
import { createHistogram, type Histogram } from '../observability/metrics/histogram.ts';
import { createSchedules } from './client/schedules.ts';
import type { TaskQueueState } from './client/task-queue.ts';
import { createTemporal, type Temporal } from './client/temporal.ts';
import { startOpenWork, type WorkOfRuns, watchClosedRuns } from './closed-runs.ts';
import { MissingNamespaceError, servesNamespace, type TemporalOptions } from './connection/temporal-connection.ts';
import { type DevServer, startDevServer } from './dev-server/dev-server.ts';
import type { TemporalEnvironment } from './dev-server/install-temporal.ts';
import { resolveTemporalBinary } from './dev-server/temporal-binary.ts';
import { durableOff } from './durable-off.ts';
import { type Dispatcher, startDispatcher } from './outbox/dispatcher.ts';
import { createMissingKeys } from './payloads/missing-keys.ts';
import { workflowsUrl } from './ui-url.ts';
import { type TaskQueueWatch, watchTaskQueue } from './watch-task-queue.ts';
import type { RunningWorker } from './worker/temporal-worker.ts';
import { prepareWorkflowBundle } from './worker/workflow-bundle.ts';

export type DurableState =
  | 'off' // turned off or stopped
  | 'fetching' // finding, downloading or building the Temporal CLI
  | 'connecting' // the server is starting or hasn't responded yet
  | 'ready'
  | 'down'; // the connection was lost, or the program can't be installed, and we're retrying

/**
 * `address` and `namespace` are only used in mode `external`. In mode `dev` the namespace is derived from the data
 * directory.
 */
export interface TemporalSettings extends Omit<TemporalOptions, 'address' | 'logger' | 'onMissingKey'> {
  readonly mode: 'off' | 'external' | 'dev';
  readonly address: string | null;
  /** The build id for worker versioning, which is off if this isn't set. */
  readonly buildId?: string;
}

export interface DurableOptions {
  readonly temporal: TemporalSettings;
  readonly role: 'client' | 'worker';
  readonly environment: TemporalEnvironment;
  readonly dataDir: string;
  readonly database: Database;
  readonly activities: object;
  /**
   * Writes outbox rows for all work that's unfinished according to the tables. We call this whenever we (re)connect,
   * and once a day.
   */
  readonly reenqueueUnfinished: () => Promise<void>;
  readonly batches: WorkOfRuns;
  readonly clock: Clock;
  /**
   * Returns the delay in milliseconds before a workflow is started, because some workflows have nothing to do at first.
   * The delay counts from the time when the outbox row was written.
   */
  readonly startDelayMs?: (workflow: string) => number;
  readonly logger: Logger;
  /** How long running activities may take to finish after a stop was requested. */
  readonly graceMs: number;
  /** Called once, as soon as durable work is ready for the first time. */
  readonly onReady?: (durable: Durable) => void;
}

export interface Durable {
  state(): DurableState;
  /** Returns why some or all durable work has to wait. Empty if nothing is waiting, or if durable work is off. */
  waitReasons(): readonly string[];
  /** Returns true if this process's worker polls for tasks, and null if this process has no worker. */
  isPolling(): boolean | null;
  /** Age of the oldest undelivered outbox row in milliseconds. 0 if everything has been delivered. */
  lagMs(): number;
  /** The state of Temporal's task queue, which can be a few seconds old. Null if it couldn't be read. */
  taskQueue(): TaskQueueState | null;
  /** A histogram of how long activities waited in the queue before this process's worker started them. */
  readonly activityWaits: Pick<Histogram, 'samples'>;
  /** The URL of the workflow list in the dev server's web UI. Null if this process has no dev server. */
  uiUrl(): string | null;
  /** Deletes all runs of a workflow. Rejects if Temporal is unavailable. */
  readonly deleteRuns: Temporal['deleteRuns'];
  /**
   * Call this after the payload keys have changed. It encrypts the schedules with the new first key and enqueues
   * unfinished work again.
   */
  reconnect(): void;
  /** Drains the worker first, and then stops our own dev server if there is one. */
  stop(): Promise<void>;
}

/** The later delays are long, because each attempt can spend minutes building the CLI. */
const startBackoff = { initialMs: 5_000, factor: 4, maxMs: 30 * 60_000 };

export function startDurable(options: DurableOptions): Durable {
  const { temporal: settings, dataDir, logger } = options;
  if (settings.mode === 'off') return durableOff;
  const stopping = new AbortController();
  const { signal } = stopping;
  let phase: DurableState = 'connecting';
  let server: DevServer | null = null;
  let temporal: Temporal | null = null;
  let worker: RunningWorker | null = null;
  let dispatcher: Dispatcher | null = null;
  let closedRuns: { stop(): Promise<void> } | null = null;
  let taskQueue: TaskQueueWatch | null = null;
  const activityWaits = createHistogram();
  let hasBeenReady = false;
  const missingKeys = createMissingKeys({ clock: options.clock, logger });
  let missingNamespace: MissingNamespaceError | null = null;

  const durable: Durable = {
    state: () => (phase === 'ready' && worker?.isPolling() === false ? 'connecting' : phase),
    waitReasons() {
      const connection = describeConnection(durable.state());
      const keys = missingKeys
        .ids()
        .map(
          (id) => `payload key ${id} is missing from TEMPORAL_PAYLOAD_KEY: append it, or terminate the runs that need it (ids in the log)`,
        );
      return phase === 'off' ? [] : [...(connection === null ? [] : [connection]), ...keys];
    },
    isPolling: () => (options.role === 'worker' ? (worker?.isPolling() ?? false) : null),
    lagMs: () => dispatcher?.lagMs() ?? 0,
    taskQueue: () => taskQueue?.current() ?? null,
    activityWaits,
    uiUrl: () => (server ? workflowsUrl(server.uiUrl, server.namespace) : null),
    async deleteRuns(workflowId, recordRuns) {
      if (!temporal) throw new Error('not connected to Temporal yet');
      return temporal.deleteRuns(workflowId, recordRuns);
    },
    reconnect() {
      missingKeys.clear();
      dispatcher?.reconnect();
    },
    async stop() {
      stopping.abort();
      await starting;
      await Promise.all([dispatcher?.stop(), closedRuns?.stop(), taskQueue?.stop()]);
      await worker?.stop();
      await temporal?.close();
      await server?.stop();
      phase = 'off';
    },
  };
  const starting = start();
  return durable;

  async function start(): Promise<void> {
    await retry(async () => connect(await resolveEndpoint()), {
      delays: backoffDelays(startBackoff),
      signal,
      onRetry(error, backoffMs) {
        phase = 'down';
        logger.error({ err: error, backoffMs }, 'failed to start or reach Temporal; retrying');
      },
      // The retries only end with an error if the service is stopping, so ignore it.
    }).catch(() => undefined);
  }

  async function resolveEndpoint(): Promise<{ address: string; namespace: string }> {
    if (settings.mode === 'external') {
      if (settings.address === null) throw new Error('TEMPORAL_ADDRESS is not set');
      return { address: settings.address, namespace: settings.namespace };
    }
    phase = 'fetching';
    const binary = await resolveTemporalBinary({ environment: options.environment, logger, signal });
    phase = 'connecting';
    server = await startDevServer({ binary, dataDir, logger, signal, servesNamespace, onRestart: () => dispatcher?.reconnect() });
    return server;
  }

  function connect({ address, namespace }: { address: string; namespace: string }): void {
    temporal = createTemporal({
      ...settings,
      createNamespace: settings.mode === 'dev' || settings.createNamespace === true,
      address,
      namespace,
      logger,
      onMissingKey: missingKeys.report,
    });
    if (options.role === 'worker') {
      const bundle = (bundleSignal: AbortSignal): Promise<string> => prepareWorkflowBundle({ dataDir, logger, signal: bundleSignal });
      worker = temporal.startWorker({
        activities: options.activities,
        bundle,
        buildId: settings.buildId,
        graceMs: options.graceMs,
        onActivityWait: activityWaits.observe,
      });
    }
    const connected = temporal;
    dispatcher = startDispatcher({
      database: options.database,
      start(row) {
        const delayMs = (options.startDelayMs?.(row.workflow) ?? 0) - row.waitedMs;
        return startOpenWork(connected, row, { delayMs, work: options.batches });
      },
      probe: () => probe(connected),
      reenqueueUnfinished: options.reenqueueUnfinished,
      schedules: createSchedules(connected, logger),
      logger,
      onChange,
    });
  }

  /** Logs an error if the namespace is missing, because only an operator can fix that. */
  async function probe(connected: Temporal): Promise<void> {
    try {
      await connected.probe();
      missingNamespace = null;
    } catch (error) {
      const isLogged = missingNamespace !== null;
      missingNamespace = error instanceof MissingNamespaceError ? error : null;
      if (missingNamespace) phase = 'down';
      if (missingNamespace && !isLogged)
        logger.error({ err: error, namespace: settings.namespace }, 'Temporal namespace missing; retrying');
      throw error;
    }
  }

  function describeConnection(state: DurableState): string | null {
    if (state === 'ready') return null;
    if (missingNamespace) return missingNamespace.message;
    if (server?.isStopped()) return 'its Temporal server was stopped; restart the gateway to start it again';
    if (state === 'down') return 'Temporal is unavailable';
    return phase === 'ready' ? 'the worker has not started yet' : 'Temporal has not been reached yet';
  }

  function onChange(reachable: boolean): void {
    // If we've never been connected, the server is just slow to start, and this isn't an outage.
    if (!reachable && phase === 'connecting' && !hasBeenReady) return;
    phase = reachable ? 'ready' : 'down';
    if (!reachable || hasBeenReady) return;
    hasBeenReady = true;
    if (temporal && !signal.aborted) {
      const { batches, clock } = options;
      taskQueue = watchTaskQueue({ read: temporal.readTaskQueue, logger });
      if (worker) closedRuns = watchClosedRuns({ temporal, workflow: 'learningBatch', work: batches, clock, logger });
    }
    options.onReady?.(durable);
  }
}
