/**
 * This process's lease of one counter: its row in the database and the local quota that the row represents, changed together.
 *
 * An operator may revoke the lease while the process is only cut off from the database, and other processes then get its quota. Every statement
 * therefore names the lease's generation: a process that reconnects finds no row of its generation, drops its quota and starts a new one.
 * Calls admitted under the old generation continue without a lease and cannot change the new one.
 */
import type { CounterKey } from './counters.ts';
import type { AcquireRequest, LeaseGrant, LeaseKey, LeaseStore } from './lease-store.ts';
import { createLocalQuota } from './local-quota.ts';
import type { ReserveResult } from './wait-queue.ts';

export interface LeaseOptions {
  readonly key: CounterKey;
  /** Id of this process's journal. */
  readonly process: string;
  readonly leases: LeaseStore;
  /** Never the same number twice in this process. */
  readonly nextGeneration: () => number;
  /** Observes how long a statement takes (`store-health.ts`). */
  readonly watch: <Result>(statement: Promise<Result>) => Promise<Result>;
}

export function createLease({ key, process, leases, nextGeneration, watch }: LeaseOptions) {
  let quota = createLocalQuota();
  let generation = nextGeneration();
  let counterId: number | null = null;

  const toLeaseKey = (counter: number): LeaseKey => ({ projectId: key.projectId, process, counterId: counter, generation });

  const reset = (): void => {
    quota = createLocalQuota();
    generation = nextGeneration();
    counterId = null;
  };

  return {
    /** Row of `limit_counters`; null while there is no lease. */
    get counterId() {
      return counterId;
    },
    get generation() {
      return generation;
    },
    get quota() {
      return quota;
    },
    /** Reserves available quota; null when it does not suffice. */
    tryGrant: (bound: number): ReserveResult | null => (quota.reserve(bound) ? { kind: 'granted', reserved: bound, generation } : null),
    /** Null when the lease was revoked; nothing is held then. */
    async acquire(
      request: Pick<AcquireRequest, 'limit' | 'need' | 'demand' | 'defaultGrant' | 'takesRemainder'>,
    ): Promise<LeaseGrant | null> {
      const isLeaseExpected = quota.leased > 0;
      // PostgreSQL would reject a number that is not a safe integer, and the database would count as unavailable.
      const limit = Math.max(-Number.MAX_SAFE_INTEGER, request.limit - quota.overdraft);
      const grant = await watch(leases.acquire({ process, generation, counter: key, isLeaseExpected, ...request, limit }));
      if (grant === null) {
        reset();
        return null;
      }
      counterId = grant.counterId;
      quota.grant(grant.granted);
      return grant;
    },
    /** Returns all available quota. */
    async release(): Promise<void> {
      const amount = quota.takeAvailable();
      if (amount > 0 && counterId !== null) await watch(leases.release(toLeaseKey(counterId), amount));
    },
    /** Sets the row to what is held here; if the row is missing, nothing is held here either. */
    async reconcile(): Promise<void> {
      if (counterId === null) return;
      const exists = await watch(leases.reconcile(toLeaseKey(counterId), quota.leased, quota.debited));
      if (!exists) reset();
    },
    /** Asks the other processes for quota. */
    async requestReturn(): Promise<void> {
      if (counterId !== null) await watch(leases.requestReturn(toLeaseKey(counterId)));
    },
    /** Deletes an idle lease. */
    async remove(): Promise<void> {
      if (counterId === null) return;
      const lease = toLeaseKey(counterId);
      quota.takeAvailable();
      counterId = null;
      try {
        await watch(leases.remove(lease));
        reset(); // The next row counts debits from zero.
      } catch (error) {
        counterId ??= lease.counterId;
        throw error;
      }
    },
    /** Drops an idle lease whose window is over. Its row is deleted with its counter. */
    abandon(): void {
      reset();
    },
  };
}
