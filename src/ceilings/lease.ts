/**
 * This process's lease of one counter: its row in the database and the local quota that the row represents, changed together.
 *
 * An operator may revoke the lease while the process is only cut off from the database, and other processes then get its quota. Every statement
 * therefore names the lease's generation: a process that reconnects finds no row of its generation, drops its quota and starts a new one.
 * Calls admitted under the old generation continue without a lease and cannot change the new one.
 */
import type { CounterKey } from './counters.ts';
import type { AcquireRequest, LeaseGrant, LeaseKey, LeaseStore } from './lease-store.ts';
import { LocalQuota } from './local-quota.ts';
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
  const toLeaseKey = (counterId: number): LeaseKey => ({ projectId: key.projectId, process, counterId, generation: lease.generation });

  const reset = (): void => {
    lease.quota = new LocalQuota();
    lease.generation = nextGeneration();
    lease.counterId = null;
  };

  /** Without getters: V8 takes objects that define getters for different types. */
  const lease = {
    /** Row of `limit_counters`; null while there is no lease. */
    counterId: null as number | null,
    generation: nextGeneration(),
    quota: new LocalQuota(),
    /** Reserves available quota; null when it does not suffice. */
    tryGrant: (bound: number): ReserveResult | null =>
      lease.quota.reserve(bound) ? { kind: 'granted', reserved: bound, generation: lease.generation } : null,
    /** Null when the lease was revoked; nothing is held then. */
    async acquire(
      request: Pick<AcquireRequest, 'limit' | 'need' | 'demand' | 'defaultGrant' | 'takesRemainder'>,
    ): Promise<LeaseGrant | null> {
      const isLeaseExpected = lease.quota.leased > 0;
      // PostgreSQL would reject a number that is not a safe integer, and the database would count as unavailable.
      const limit = Math.max(-Number.MAX_SAFE_INTEGER, request.limit - lease.quota.overdraft);
      const grant = await watch(
        leases.acquire({ process, generation: lease.generation, counter: key, isLeaseExpected, ...request, limit }),
      );
      if (grant === null) {
        reset();
        return null;
      }
      lease.counterId = grant.counterId;
      lease.quota.grant(grant.granted);
      return grant;
    },
    /** Returns all available quota. */
    async release(): Promise<void> {
      const amount = lease.quota.takeAvailable();
      if (amount > 0 && lease.counterId !== null) await watch(leases.release(toLeaseKey(lease.counterId), amount));
    },
    /** Sets the row to what is held here; if the row is missing, nothing is held here either. */
    async reconcile(): Promise<void> {
      if (lease.counterId === null) return;
      const exists = await watch(leases.reconcile(toLeaseKey(lease.counterId), lease.quota.leased, lease.quota.debited));
      if (!exists) reset();
    },
    /** Asks the other processes for quota. */
    async requestReturn(): Promise<void> {
      if (lease.counterId !== null) await watch(leases.requestReturn(toLeaseKey(lease.counterId)));
    },
    /** Deletes an idle lease. */
    async remove(): Promise<void> {
      if (lease.counterId === null) return;
      const removed = toLeaseKey(lease.counterId);
      lease.quota.takeAvailable();
      lease.counterId = null;
      try {
        await watch(leases.remove(removed));
        reset(); // The next row counts debits from zero.
      } catch (error) {
        lease.counterId ??= removed.counterId;
        throw error;
      }
    },
    /** Drops an idle lease whose window is over. Its row is deleted with its counter. */
    abandon(): void {
      reset();
    },
  };
  return lease as Readonly<typeof lease>;
}
