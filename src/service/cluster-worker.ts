/** A cluster's API process: what its parent (cluster.ts) has sent it, and what it reports to the parent. */
import cluster from 'node:cluster';
import { noSecretFiles } from '../config/secret-files.ts';
import { withTimeout } from '../core/time-limit.ts';
import type { MetricFamily } from '../observability/metrics/families.ts';
import type { ConfigFileSnapshot, ParentMessage, WorkerMessage } from './cluster-messages.ts';
import { parentMessage } from './cluster-messages.ts';
import { StartError } from './start-error.ts';

export interface ClusterWorker {
  readonly slot: number;
  /** True for the one process that does what must happen once per service: durable work. */
  readonly isLeader: boolean;
  readonly isFirst: boolean;
  /** The configuration file as the parent sent it last. */
  configFile(): Omit<ConfigFileSnapshot, 'demoUrl' | 'localEmbedder'>;
  demoUrl(): string | null;
  localEmbedder(): ConfigFileSnapshot['localEmbedder'];
  /** Calls `change` with each new state of the cluster's embedder, at once if it is ready. */
  onEmbedderChange(change: (isReady: boolean) => void): void;
  /** Calls `reload` whenever the parent sends a new configuration. */
  onReload(reload: () => void): void;
  /** Reports to the parent that calls are served. */
  reportListening(url: string): void;
  /** Answers the parent's requests for the metrics of this process. */
  onCollectMetrics(collect: () => Promise<readonly MetricFamily[]>): void;
  /** The metrics of all processes. Rejects when the parent does not respond. */
  readMetrics(): Promise<string>;
}

/** Longer than the parent takes (cluster-metrics.ts). */
const readTimeoutMs = 5_000;

/**
 * Waits for the parent's first message. Calls `onParentExit` when the parent exits, also by SIGKILL, since the kernel closes the channel.
 * Throws StartError in a process that was not started by a cluster's parent.
 */
export async function joinCluster(onParentExit: () => void): Promise<ClusterWorker> {
  const { worker } = cluster;
  if (!worker || !process.connected) throw new StartError('gateway member is started by start and serve, with GATEWAY_WORKERS above 1');
  // By default Node exits a worker when its parent dies; this one first lets running responses finish and settles them.
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
    // Without a parent `onParentExit` has been called already.
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
        // Without an answer the parent counts this process as silent.
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
  if (first === null) throw new StartError('the process that started this one is gone');
  // The channel must not keep the event loop alive after an orderly stop.
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
        throw new Error('the parent of the cluster does not respond');
      };
      return withTimeout(promise, readTimeoutMs, timedOut).finally(() => reads.delete(id));
    },
  };
}
