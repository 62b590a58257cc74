/**
 * The durable part as one thing to start and stop: finds or fetches Temporal, runs the dev server where there is no other, and joins
 * client, worker and dispatcher to it.
 *
 * All of it happens in the background, and nothing of it fails a start: the API answers calls from the first moment, what it
 * leaves to be done waits as outbox rows, and `state` says how far it is.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { memoryQueue } from '../../workflows/contract.ts';
import { errorSummary } from '../core/error-messages.ts';
import type { Database } from '../db/database.ts';
import type { Logger } from '../observability/logger.ts';
import { ensureSchedules } from './client/schedules.ts';
import { createTemporal, type Temporal } from './client/temporal.ts';
import { servesNamespace, type TemporalOptions } from './connection/temporal-connection.ts';
import { type DevServer, startDevServer } from './dev-server/dev-server.ts';
import type { TemporalEnvironment } from './dev-server/install-temporal.ts';
import { resolveTemporalBinary } from './dev-server/temporal-binary.ts';
import { type Dispatcher, startDispatcher } from './outbox/dispatcher.ts';
import type { RunningWorker } from './worker/temporal-worker.ts';
import { prepareWorkflowBundle } from './worker/workflow-bundle.ts';

export type DurableState =
  | 'off' // switched off, or stopped
  | 'fetching' // the program is being found, downloaded or built
  | 'connecting' // the server starts, or did not answer yet
  | 'ready'
  | 'down'; // it was there and is not, or cannot be had; tried again

export interface TemporalSettings {
  readonly mode: 'off' | 'external' | 'dev';
  /** Host and port, for `external`. */
  readonly address: string | null;
  /** For `external`; the dev server's namespace is named after the data directory. */
  readonly namespace: string;
  readonly tls?: TemporalOptions['tls'];
  readonly apiKey?: string;
  readonly payloadKeys?: TemporalOptions['payloadKeys'];
  /** Set: workers take part in worker versioning under this id. */
  readonly buildId?: string;
}

export interface DurableOptions {
  readonly temporal: TemporalSettings;
  /** `client` starts workflows, `worker` runs them too. */
  readonly role: 'client' | 'worker';
  readonly environment: TemporalEnvironment;
  readonly dataDir: string;
  readonly database: Database;
  readonly activities: object;
  /** Writes outbox rows again for what the tables show unfinished; called after each (re)connection. */
  readonly reenqueueUnfinished: () => Promise<void>;
  /** How long after it was asked for a workflow of this name has anything to do. Until then the server waits, and no worker is asked. */
  readonly startDelayMs?: (workflow: string) => number;
  readonly logger: Logger;
  /** Called once, when durable work runs for the first time. */
  readonly onReady?: (durable: Durable) => void;
}

export interface Durable {
  state(): DurableState;
  /** How long the oldest wish that is written down waits for Temporal, in milliseconds; 0 while nothing waits. */
  lagMs(): number;
  /** Address of the web UI's page of our namespace; null when there is none of ours. */
  uiUrl(): string | null;
  /** Deletes all runs of a workflow id. Rejects while Temporal is away. */
  readonly deleteRuns: Temporal['deleteRuns'];
  /** Drains the worker, then ends the dev server if there is one. */
  stop(): Promise<void>;
}

const initialBackoffMs = 5_000;
/** A fetch that failed costs minutes of building to try again. */
const maxBackoffMs = 30 * 60_000;

/** Starts the durable part in the background. */
export function startDurable(options: DurableOptions): Durable {
  const { temporal: settings, dataDir, logger } = options;
  const stopping = new AbortController();
  const { signal } = stopping;
  let phase: DurableState = settings.mode === 'off' ? 'off' : 'connecting';
  let server: DevServer | null = null;
  let temporal: Temporal | null = null;
  let worker: RunningWorker | null = null;
  let dispatcher: Dispatcher | null = null;
  let hasBeenReady = false;

  const durable: Durable = {
    state: () => (phase === 'ready' && worker?.isPolling() === false ? 'connecting' : phase),
    lagMs: () => dispatcher?.lagMs() ?? 0,
    uiUrl: () => (server ? `${server.uiUrl}/namespaces/${server.namespace}/workflows` : null),
    async deleteRuns(workflowId, recordRuns) {
      if (!temporal) throw new Error('Temporal is not there yet');
      return temporal.deleteRuns(workflowId, recordRuns);
    },
    async stop() {
      stopping.abort();
      await starting;
      await dispatcher?.stop();
      await worker?.stop();
      await temporal?.close();
      await server?.stop();
      phase = 'off';
    },
  };
  const starting = settings.mode === 'off' ? Promise.resolve() : start();
  return durable;

  async function start(): Promise<void> {
    for (let backoffMs = initialBackoffMs; !signal.aborted; backoffMs = Math.min(maxBackoffMs, backoffMs * 4)) {
      try {
        return connect(await resolveEndpoint());
      } catch (error) {
        if (signal.aborted) return;
        phase = 'down';
        logger.error({ err: error }, `durable work waits: ${errorSummary(error)}`);
        await sleep(backoffMs, undefined, { signal }).catch(() => {}); // Rejects when stopping.
      }
    }
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
    const { tls, apiKey, payloadKeys, buildId } = settings;
    temporal = createTemporal({
      address,
      namespace,
      logger,
      ...(tls !== undefined && { tls }),
      ...(apiKey !== undefined && { apiKey }),
      ...(payloadKeys !== undefined && { payloadKeys }),
    });
    if (options.role === 'worker') {
      const bundle = (bundleSignal: AbortSignal): Promise<string> => prepareWorkflowBundle({ dataDir, logger, signal: bundleSignal });
      worker = temporal.startWorker({
        queue: memoryQueue,
        activities: options.activities,
        bundle,
        ...(buildId !== undefined && { buildId }),
      });
    }
    const connected = temporal;
    dispatcher = startDispatcher({
      database: options.database,
      start: (row) => connected.start(row, { delayMs: (options.startDelayMs?.(row.workflow) ?? 0) - row.waitedMs }),
      probe: connected.probe,
      reenqueueUnfinished: options.reenqueueUnfinished,
      ensureSchedules: () => ensureSchedules(connected, logger),
      logger,
      onChange,
    });
  }

  function onChange(reachable: boolean): void {
    if (!reachable && phase === 'connecting' && !hasBeenReady) return; // Not there yet is not down.
    phase = reachable ? 'ready' : 'down';
    if (!reachable || hasBeenReady) return;
    hasBeenReady = true;
    options.onReady?.(durable);
  }
}
