/**
 * Connects an API process to the parent of its cluster (cluster.ts). Keeps what the parent sends, and reports back to
 * it.
 */
import cluster from 'node:cluster';
import { noSecretFiles } from '../config/secret-files.ts';
import { withTimeout } from '../core/time-limit.ts';
import type { MetricFamily } from '../observability/metrics/families.ts';
import { type ConfigFileSnapshot, type ParentMessage, parentMessage, type WorkerMessage } from './cluster-messages.ts';
import { StartError } from './start-error.ts';

export interface ClusterWorker {
  readonly slot: number;
  /** True for just one process of a cluster, because durable work should only run once. */
  readonly isLeader: boolean;
  readonly isFirst: boolean;
  configFile(): Omit<ConfigFileSnapshot, 'demoUrl' | 'localEmbedder'>;
  demoUrl(): string | null;
  localEmbedder(): ConfigFileSnapshot['localEmbedder'];
  /**
   * Calls `change` whenever the cluster's embedder becomes ready or unavailable, and right away if it's already ready.
   */
  onEmbedderChange(change: (isReady: boolean) => void): void;
  onReload(reload: () => void): void;
  reportListening(url: string): void;
  onCollectMetrics(collect: () => Promise<readonly MetricFamily[]>): void;
  /** Returns the metrics of all processes. Rejects if the parent doesn't respond. */
  readMetrics(): Promise<string>;
}

/** The parent takes up to two seconds to collect the metrics (cluster-metrics.ts), so wait longer than that. */
const readTimeoutMs = 5_000;

/**
 * Waits for the parent's first message. Calls `onParentExit` when the parent exits, even if it was killed with SIGKILL,
 * because the kernel then closes the channel. Throws StartError if this process wasn't started by the parent of a
 * cluster.
 */
export async function joinCluster(onParentExit: () => void): Promise<ClusterWorker> {
  const { worker } = cluster;
  if (!worker || !process.connected)
    throw new StartError('do not run gateway member yourself: gateway start and serve run it if GATEWAY_API_PROCESSES is above 1');
  // By default, Node exits a worker when its parent dies. Prevent this, because we have to finish and settle running
  // calls first.
  worker.exitedAfterDisconnect = true;
  const started = Promise.withResolvers<Extract<ParentMessage, { kind: 'begin' }> | null>();
  let snapshot: ConfigFileSnapshot = { fileText: null, fileName: '', secrets: noSecretFiles, demoUrl: null, localEmbedder: null };
  let reload: (() => void) | null = null;
  let isReloadPending = false;
  let isEmbedderReady = false;
  let changeEmbedder: (isReady: boolean) => void = () => undefined;
  let collect: () => Promise<readonly MetricFamily[]> = async () => [];
  const reads = new Map<number, (text: string) => void>();
  let lastRead = 0;
  const send = (message: WorkerMessage): void => {
    // If the channel is closed, the parent has exited, which `onParentExit` handles.
    if (process.connected) process.send?.(message, () => undefined);
  };
  process.on('message', (data: unknown) => {
    const message = parentMessage.parse(data);
    switch (message.kind) {
      case 'begin':
        snapshot = message.basis;
        return started.resolve(message);
      case 'reload':
        snapshot = message.basis;
        if (reload) reload();
        else isReloadPending = true;
        return;
      case 'embedder':
        isEmbedderReady = message.isReady;
        return changeEmbedder(isEmbedderReady);
      case 'collect metrics':
        // Don't respond if collecting fails. The parent then uses our previous metrics.
        return void collect().then(
          (families) => send({ kind: 'collected', id: message.id, families }),
          () => undefined,
        );
      case 'metrics':
        return reads.get(message.id)?.(message.text);
    }
  });
  process.on('disconnect', () => {
    started.resolve(null);
    onParentExit();
  });
  const first = await started.promise;
  if (first === null) throw new StartError('the parent process has exited');
  // An open channel would keep the process running after everything else has stopped, so don't let Node wait for it.
  process.channel?.unref();
  const { place: slot, isFirst } = first;
  return {
    slot,
    isLeader: slot === 1,
    isFirst,
    configFile: () => snapshot,
    demoUrl: () => snapshot.demoUrl,
    localEmbedder: () => snapshot.localEmbedder,
    onEmbedderChange(change) {
      changeEmbedder = change;
      if (isEmbedderReady) change(true);
    },
    onReload(action) {
      reload = action;
      if (isReloadPending) action();
    },
    reportListening(url) {
      send({ kind: 'up', url });
    },
    onCollectMetrics(action) {
      collect = action;
    },
    async readMetrics() {
      lastRead += 1;
      const id = lastRead;
      const { promise, resolve } = Promise.withResolvers<string>();
      reads.set(id, resolve);
      send({ kind: 'read metrics', id });
      const timedOut = (): never => {
        throw new Error('the primary process of the cluster does not respond');
      };
      return withTimeout(promise, readTimeoutMs, timedOut).finally(() => reads.delete(id));
    },
  };
}
