/**
 * This process's lease of one counter. It consists of a row in the database and the local quota that the row
 * represents, and we change them together.
 *
 * If a process is cut off from the database but still running, an operator may revoke its lease, and other processes
 * then get its quota. Therefore every statement includes the lease's generation. When the process reconnects and finds
 * no row with its generation, it drops its quota and starts a new generation. Calls that were admitted under the old
 * one continue without a lease and can't change the new one.
 */
import type { CounterKey } from './counters.ts';
import type { AcquireRequest, LeaseGrant, LeaseKey, LeaseStore } from './lease-store.ts';
import { LocalQuota } from './local-quota.ts';
import type { ReserveResult } from './wait-queue.ts';

export interface LeaseOptions {
  readonly key: CounterKey;
  /** The id of this process's journal. */
  readonly process: string;
  readonly leases: LeaseStore;
  /** Never returns the same number twice in this process. */
  readonly nextGeneration: () => number;
  /** Monitors how long a statement takes (`store-health.ts`). */
  readonly watch: <Result>(statement: Promise<Result>) => Promise<Result>;
}

export function createLease({ key, process, leases, nextGeneration, watch }: LeaseOptions) {
  const toLeaseKey = (counterId: number): LeaseKey => ({ projectId: key.projectId, process, counterId, generation: lease.generation });

  const reset = (): void => {
    lease.quota = new LocalQuota();
    lease.generation = nextGeneration();
    lease.counterId = null;
  };

  /** This object has no getters, because V8 gives each object that defines getters its own hidden class. */
  const lease = {
    /** The id of the row in `limit_counters`. Null while there is no lease. */
    counterId: null as number | null,
    generation: nextGeneration(),
    quota: new LocalQuota(),
    /** Reserves available quota. Returns null if there isn't enough. */
    tryGrant: (bound: number): ReserveResult | null =>
      lease.quota.reserve(bound) ? { kind: 'granted', reserved: bound, generation: lease.generation } : null,
    /** Returns null if the lease was revoked, so that we no longer hold anything. */
    async acquire(
      request: Pick<AcquireRequest, 'limit' | 'need' | 'demand' | 'defaultGrant' | 'takesRemainder'>,
    ): Promise<LeaseGrant | null> {
      const isLeaseExpected = lease.quota.leased > 0;
      // PostgreSQL would reject a number that isn't a safe integer, and we'd consider the database unavailable.
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
    /** Returns all available quota to the database. */
    async release(): Promise<void> {
      const amount = lease.quota.takeAvailable();
      if (amount > 0 && lease.counterId !== null) await watch(leases.release(toLeaseKey(lease.counterId), amount));
    },
    /** Sets the row to what we hold. If the row is missing, we drop what we hold. */
    async reconcile(): Promise<void> {
      if (lease.counterId === null) return;
      const exists = await watch(leases.reconcile(toLeaseKey(lease.counterId), lease.quota.leased, lease.quota.debited));
      if (!exists) reset();
    },
    /** Asks the other processes for quota. */
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
    /** Drops an idle lease whose window is over. Its row is deleted together with the counter. */
    abandon(): void {
      reset();
    },
  };
  return lease as Readonly<typeof lease>;
}
