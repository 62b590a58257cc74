/** A process of a set as it sees itself: what its parent (process-set.ts) told it, and what it tells its parent. */
import cluster from 'node:cluster';
import type { ConfigFileSnapshot, ParentMessage, WorkerMessage } from './cluster-messages.ts';
import { parentMessage } from './cluster-messages.ts';
import { StartError } from './start-error.ts';

export interface ClusterWorker {
  readonly slot: number;
  /** One of the set does what must be done once: durable work, the first key. */
  readonly isLeader: boolean;
  readonly isFirst: boolean;
  /** As the parent told it last. */
  configFile(): Pick<ConfigFileSnapshot, 'fileText' | 'fileName'>;
  demoUrl(): string | null;
  /** Calls `reload` whenever the parent says that the configuration shall be read again. */
  onReload(reload: () => void): void;
  /** Tells the parent that calls are answered. */
  reportListening(url: string): void;
}

/**
 * Waits for what the parent says at the beginning. `onOrphaned` is called when the parent is gone, by -9 too: the kernel closes the channel.
 * Throws StartError for a process that no parent of ours has started.
 */
export async function joinCluster(onParentExit: () => void): Promise<ClusterWorker> {
  const { worker } = cluster;
  if (!worker || !process.connected) throw new StartError('gateway member is started by start and serve, with GATEWAY_WORKERS above 1');
  // Otherwise Node ends a member at once when its parent dies; ours lets its running answers end and settles them.
  worker.exitedAfterDisconnect = true;
  const started = Promise.withResolvers<Extract<ParentMessage, { kind: 'begin' }> | null>();
  let snapshot: ConfigFileSnapshot = { fileText: null, fileName: '', demoUrl: null };
  let reload: (() => void) | null = null;
  let isReloadPending = false;
  process.on('message', (data: unknown) => {
    const message = parentMessage.parse(data);
    snapshot = message.basis;
    if (message.kind === 'begin') started.resolve(message);
    else if (reload) reload();
    else isReloadPending = true;
  });
  process.on('disconnect', () => {
    started.resolve(null);
    onParentExit();
  });
  const first = await started.promise;
  if (first === null) throw new StartError('the process that started this one is gone');
  // The channel alone is no reason to live on after an orderly end.
  process.channel?.unref();
  const { place: slot, isFirst } = first;
  return {
    slot,
    isLeader: slot === 1,
    isFirst,
    configFile: () => snapshot,
    demoUrl: () => snapshot.demoUrl,
    onReload(action) {
      reload = action;
      if (isReloadPending) action();
    },
    reportListening(url) {
      const message: WorkerMessage = { kind: 'up', url };
      // Without a parent there is nobody to tell, and `onOrphaned` has been called.
      if (process.connected) process.send?.(message, () => undefined);
    },
  };
}
