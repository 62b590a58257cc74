/** A process of a set as it sees itself: what its parent (process-set.ts) told it, and what it tells its parent. */
import cluster from 'node:cluster';
import type { ConfigBasis, MemberMessage, ParentMessage } from './cluster-messages.ts';
import { parentMessage } from './cluster-messages.ts';
import { StartError } from './start-error.ts';

export interface SetMember {
  readonly place: number;
  /** One of the set does what must be done once: durable work, the first key. */
  readonly leads: boolean;
  readonly isFirst: boolean;
  /** As the parent told it last. */
  configFile(): Pick<ConfigBasis, 'fileText' | 'fileName'>;
  demoUrl(): string | null;
  /** Calls `reload` whenever the parent says that the configuration shall be read again. */
  onReload(reload: () => void): void;
  /** Tells the parent that calls are answered. */
  reportUp(url: string): void;
}

/**
 * Waits for what the parent says at the beginning. `onOrphaned` is called when the parent is gone, by -9 too: the kernel closes the channel.
 * Throws StartError for a process that no parent of ours has started.
 */
export async function joinSet(onOrphaned: () => void): Promise<SetMember> {
  const { worker } = cluster;
  if (!worker || !process.connected) throw new StartError('gateway member is started by start and serve, with GATEWAY_WORKERS above 1');
  // Otherwise Node ends a member at once when its parent dies; ours lets its running answers end and settles them.
  worker.exitedAfterDisconnect = true;
  const begun = Promise.withResolvers<Extract<ParentMessage, { kind: 'begin' }> | null>();
  let basis: ConfigBasis = { fileText: null, fileName: '', demoUrl: null };
  let reload: (() => void) | null = null;
  let isReloadDue = false;
  process.on('message', (data: unknown) => {
    const message = parentMessage.parse(data);
    basis = message.basis;
    if (message.kind === 'begin') begun.resolve(message);
    else if (reload) reload();
    else isReloadDue = true;
  });
  process.on('disconnect', () => {
    begun.resolve(null);
    onOrphaned();
  });
  const begin = await begun.promise;
  if (begin === null) throw new StartError('the process that started this one is gone');
  // The channel alone is no reason to live on after an orderly end.
  process.channel?.unref();
  const { place, isFirst } = begin;
  return {
    place,
    leads: place === 1,
    isFirst,
    configFile: () => basis,
    demoUrl: () => basis.demoUrl,
    onReload(action) {
      reload = action;
      if (isReloadDue) action();
    },
    reportUp(url) {
      const message: MemberMessage = { kind: 'up', url };
      // Without a parent there is nobody to tell, and `onOrphaned` has been called.
      if (process.connected) process.send?.(message, () => undefined);
    },
  };
}
