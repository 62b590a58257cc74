/**
 * This process's lease from one counter. It consists of a row in the database and the local quota that the row accounts
 * for, and both are always changed together.
 *
 * An operator can revoke the lease of a process that is running but cut off from the database, so that other processes
 * get its quota. That's why every statement includes the lease's generation. When the process reconnects and finds no
 * row with its generation, it drops its quota and starts a new generation. Calls that were admitted under the old
 * generation continue without a lease and don't affect the new one.
 */
import type { CounterKey } from './counters.ts';
import type { AcquireRequest, LeaseGrant, LeaseKey, LeaseStore } from './lease-store.ts';
import { LocalQuota } from './local-quota.ts';
import type { ReserveResult } from './wait-queue.ts';

export interface LeaseOptions {
  readonly key: CounterKey;
  /** The journal id of this process. */
  readonly process: string;
  readonly leases: LeaseStore;
  /** Returns a generation number that this process hasn't used before. */
  readonly nextGeneration: () => number;
  readonly watch: <Result>(statement: Promise<Result>) => Promise<Result>;
}

export function createLease({ key, process, leases, nextGeneration, watch }: LeaseOptions) {
  const toLeaseKey = (counterId: number): LeaseKey => ({ projectId: key.projectId, process, counterId, generation: lease.generation });

  const reset = (): void => {
    lease.quota = new LocalQuota();
    lease.generation = nextGeneration();
    lease.counterId = null;
  };

  /** Don't use getters here, because V8 would create a separate hidden class for each object literal that has some. */
  const lease = {
    /** The id of the counter's row in `limit_counters`. Null while there's no lease. */
    counterId: null as number | null,
    generation: nextGeneration(),
    quota: new LocalQuota(),
    /** Reserves quota that we've already leased. Returns null if that isn't enough. */
    tryGrant: (bound: number): ReserveResult | null =>
      lease.quota.reserve(bound) ? { kind: 'granted', reserved: bound, generation: lease.generation } : null,
    /**
     * Acquires quota from the database. Returns null if the lease has been revoked, in which case the process has no
     * quota left.
     */
    async acquire(
      request: Pick<AcquireRequest, 'limit' | 'need' | 'demand' | 'defaultGrant' | 'takesRemainder'>,
    ): Promise<LeaseGrant | null> {
      const isLeaseExpected = lease.quota.leased > 0;
      // Clamp the limit to the safe range. PostgreSQL would reject a larger integer, and we'd mistake that for an
      // outage.
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
    async release(): Promise<void> {
      const amount = lease.quota.takeAvailable();
      if (amount > 0 && lease.counterId !== null) await watch(leases.release(toLeaseKey(lease.counterId), amount));
    },
    /**
     * Updates the lease in the database to what this process holds. If the lease no longer exists, the process gives up
     * its quota.
     */
    async reconcile(): Promise<void> {
      if (lease.counterId === null) return;
      const exists = await watch(leases.reconcile(toLeaseKey(lease.counterId), lease.quota.leased, lease.quota.debited));
      if (!exists) reset();
    },
    async requestReturn(): Promise<void> {
      if (lease.counterId !== null) await watch(leases.requestReturn(toLeaseKey(lease.counterId)));
    },
    async remove(): Promise<void> {
      if (lease.counterId === null) return;
      const removed = toLeaseKey(lease.counterId);
      lease.quota.takeAvailable();
      lease.counterId = null;
      try {
        await watch(leases.remove(removed));
        reset(); // The debits of the next row start at zero.
      } catch (error) {
        lease.counterId ??= removed.counterId;
        throw error;
      }
    },
    /**
     * Forgets an unused lease after its window has ended. Its row in the database is deleted together with the counter.
     */
    abandon(): void {
      reset();
    },
  };
  return lease as Readonly<typeof lease>;
}
