/**
 * The lease that this process has of one counter: its row in the store, and the slice that the row stands for, changed together.
 *
 * An operator may write the row off while the process is only cut off from the database (decisions 6), and others then hold what it held. So a
 * lease has a generation, which every statement names: a process that is back finds no row of its generation, drops its slice and begins anew.
 * What runs under the old one then goes on without a lease, and changes nothing of the new one.
 */
import type { CounterName } from './counters.ts';
import type { Leases, RaiseRequest } from './lease-store.ts';
import { createSlice, type Slice } from './local-quota.ts';

export interface Lease {
  /** Row of `limit_counters`; null while there is no lease. */
  readonly id: number | null;
  readonly generation: number;
  readonly slice: Slice;
  /** Null: the lease was written off, and this one holds nothing now. */
  raise(
    request: Pick<RaiseRequest, 'limit' | 'need' | 'demand' | 'slice' | 'alone'>,
  ): Promise<{ readonly id: number; readonly granted: number; readonly others: number } | null>;
  /** Gives back all that is free. */
  lower(): Promise<void>;
  /** Sets the row to what is held here; where there is none, nothing is held here either. */
  reconcile(): Promise<void>;
  /** Gives up an idle lease. */
  drop(): Promise<void>;
  /** The window is over: nobody else wants it any more, and the row goes with its counter. */
  leave(): void;
}

export interface LeaseOptions {
  readonly name: CounterName;
  /** Id of this process's journal. */
  readonly process: string;
  readonly leases: Leases;
  /** Never the same number twice in this process. */
  readonly nextGeneration: () => number;
  /** Waits for a statement no longer than it is worth (`store-health.ts`). */
  readonly watch: <Result>(statement: Promise<Result>) => Promise<Result>;
}

export function createLease({ name, process, leases, nextGeneration, watch }: LeaseOptions): Lease {
  let slice = createSlice();
  let generation = nextGeneration();
  let id: number | null = null;

  const lose = (): void => {
    slice = createSlice();
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
    get slice() {
      return slice;
    },
    async raise(request) {
      const isHeld = slice.held > 0;
      // The store would take no smaller number, which looked as if it were down.
      const limit = Math.max(-Number.MAX_SAFE_INTEGER, request.limit - slice.owed);
      const raised = await watch(leases.raise({ process, generation, counter: name, isHeld, ...request, limit }));
      if (raised === null) {
        lose();
        return null;
      }
      id = raised.id;
      slice.grant(raised.granted);
      return raised;
    },
    async lower() {
      const amount = slice.takeFree();
      if (amount > 0 && id !== null) await watch(leases.lower({ process, id, generation }, amount));
    },
    async reconcile() {
      if (id === null) return;
      const isThere = await watch(leases.reconcile({ process, id, generation }, slice.held));
      if (!isThere) lose();
    },
    async drop() {
      if (id === null) return;
      const given = { process, id, generation };
      slice.takeFree();
      id = null;
      try {
        await watch(leases.drop(given));
      } catch (error) {
        id ??= given.id;
        throw error;
      }
    },
    leave() {
      slice.takeFree();
      id = null;
    },
  };
}
