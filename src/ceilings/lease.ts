/**
 * The lease that this process has of one counter: its row in the store, and the slice that the row stands for, changed together.
 *
 * An operator may write the row off while the process is only cut off from the database (decisions 6), and others then hold what it held. So a
 * lease has a generation, which every statement names: a process that is back finds no row of its generation, drops its slice and begins anew.
 * What runs under the old one then goes on without a lease, and changes nothing of the new one.
 */
import type { CounterKey } from './counters.ts';
import type { AcquireRequest, LeaseStore } from './lease-store.ts';
import { createLocalQuota, type LocalQuota } from './local-quota.ts';

export interface Lease {
  /** Row of `limit_counters`; null while there is no lease. */
  readonly id: number | null;
  readonly generation: number;
  readonly quota: LocalQuota;
  /** Null: the lease was written off, and this one holds nothing now. */
  acquire(
    request: Pick<AcquireRequest, 'limit' | 'need' | 'demand' | 'defaultGrant' | 'takesRemainder'>,
  ): Promise<{ readonly id: number; readonly granted: number; readonly others: number } | null>;
  /** Gives back all that is free. */
  release(): Promise<void>;
  /** Sets the row to what is held here; where there is none, nothing is held here either. */
  reconcile(): Promise<void>;
  /** Gives up an idle lease. */
  remove(): Promise<void>;
  /** The window is over: nobody else wants it any more, and the row goes with its counter. */
  abandon(): void;
}

export interface LeaseOptions {
  readonly name: CounterKey;
  /** Id of this process's journal. */
  readonly process: string;
  readonly leases: LeaseStore;
  /** Never the same number twice in this process. */
  readonly nextGeneration: () => number;
  /** Waits for a statement no longer than it is worth (`store-health.ts`). */
  readonly watch: <Result>(statement: Promise<Result>) => Promise<Result>;
}

export function createLease({ name, process, leases, nextGeneration, watch }: LeaseOptions): Lease {
  let slice = createLocalQuota();
  let generation = nextGeneration();
  let id: number | null = null;

  const reset = (): void => {
    slice = createLocalQuota();
    generation = nextGeneration();
    id = null;
  };

  return {
    get id() {
      return id;
    },
    get generation() {
      return generation;
    },
    get quota() {
      return slice;
    },
    async acquire(request) {
      const isHeld = slice.leased > 0;
      // The store would take no smaller number, which looked as if it were down.
      const limit = Math.max(-Number.MAX_SAFE_INTEGER, request.limit - slice.overdraft);
      const raised = await watch(leases.acquire({ process, generation, counter: name, isLeaseExpected: isHeld, ...request, limit }));
      if (raised === null) {
        reset();
        return null;
      }
      id = raised.id;
      slice.grant(raised.granted);
      return raised;
    },
    async release() {
      const amount = slice.takeAvailable();
      if (amount > 0 && id !== null) await watch(leases.release({ process, id, generation }, amount));
    },
    async reconcile() {
      if (id === null) return;
      const isThere = await watch(leases.reconcile({ process, id, generation }, slice.leased));
      if (!isThere) reset();
    },
    async remove() {
      if (id === null) return;
      const given = { process, id, generation };
      slice.takeAvailable();
      id = null;
      try {
        await watch(leases.remove(given));
      } catch (error) {
        id ??= given.id;
        throw error;
      }
    },
    abandon() {
      slice.takeAvailable();
      id = null;
    },
  };
}
