/**
 * A model of the ceiling tables, i.e. `limit_counters`, `limit_leases` and the usage of stored calls. Each method is
 * one statement or transaction of `src/ceilings/lease-store.ts` and `src/ceilings/counter-updates.ts`.
 *
 * `test/ceilings/store-model.test.ts` uses random commands to compare it with real databases.
 */
import { type CounterKey, formatCounterKey } from '../../src/ceilings/counters.ts';
import type { AcquireRequest, LeaseGrant, LeaseKey, LeaseStore } from '../../src/ceilings/lease-store.ts';
import type { SettledCall } from '../../src/core/call.ts';
import { usageFor } from '../../src/core/ceiling-usage.ts';

export interface LeaseState {
  amount: number;
  generation: number;
  reserved: number;
  debited: number;
}

export interface CounterState {
  readonly id: number;
  readonly key: CounterKey;
  settled: number;
  leased: number;
  /** By process. */
  readonly leases: Map<string, LeaseState>;
  /** The latest request to return unused quota. */
  returnRequest: { readonly process: string; readonly at: number } | null;
}

export type CeilingsStore = ReturnType<typeof createCeilingsStore>;

/** `now` is the store's time in milliseconds. */
export function createCeilingsStore(now: () => number = () => 0) {
  const counters = new Map<string, CounterState>();
  const calls = new Map<string, SettledCall>();
  let lastId = 0;
  let version = 0;
  const isRequestedByOthers = ({ returnRequest }: CounterState, process: string): boolean =>
    returnRequest !== null && returnRequest.process !== process && returnRequest.at > now() - 2_000;
  const byId = (id: number): CounterState | undefined => [...counters.values()].find((counter) => counter.id === id);

  const leaseOf = ({
    process,
    counterId,
    generation,
  }: Omit<LeaseKey, 'projectId'>): { counter: CounterState; lease: LeaseState } | null => {
    const counter = byId(counterId);
    const lease = counter?.leases.get(process);
    return counter && lease?.generation === generation ? { counter, lease } : null;
  };

  return {
    /** Changes with every statement. */
    version: () => version,
    counters: (): readonly CounterState[] => [...counters.values()],
    find: (key: CounterKey): CounterState | undefined => counters.get(formatCounterKey(key)),
    calls: (): readonly SettledCall[] => [...calls.values()],
    hasStored: (callId: string): boolean => calls.has(callId),
    /** Returns the usage of the stored calls that belong to a counter. */
    usageOf: (key: CounterKey): number => sumOf([...calls.values()], key),

    createCounter(key: CounterKey): void {
      version += 1;
      const name = formatCounterKey(key);
      if (counters.has(name)) return;
      lastId += 1;
      counters.set(name, { id: lastId, key, settled: sumOf([...calls.values()], key), leased: 0, leases: new Map(), returnRequest: null });
    },
    /** Undefined if the counter doesn't exist, and null if the lease was revoked. */
    acquire(request: AcquireRequest): LeaseGrant | null | undefined {
      version += 1;
      const { process, generation, isLeaseExpected, limit, need, demand, takesRemainder } = request;
      const counter = counters.get(formatCounterKey(request.counter));
      if (!counter) return undefined;
      const lease = counter.leases.get(process);
      if (isLeaseExpected && lease?.generation !== generation) return null;
      const defaultGrant = isRequestedByOthers(counter, process) ? 0 : request.defaultGrant;
      const remaining = limit - counter.settled - counter.leased;
      const heldByOthers = counter.leased - (lease?.amount ?? 0);
      let granted = 0;
      if (remaining >= need) {
        const usual = Math.min(defaultGrant, Math.trunc(remaining / 10));
        granted = Math.min(remaining, Math.max(Math.min(demand, Math.max(defaultGrant, need)), usual));
      } else if (takesRemainder && heldByOthers === 0) granted = Math.max(0, remaining);
      if (granted > 0) {
        counter.leased += granted;
        const debited = lease?.generation === generation ? lease.debited : 0;
        counter.leases.set(process, { amount: granted + (lease?.amount ?? 0), generation, reserved: lease?.reserved ?? 0, debited });
      }
      return { counterId: counter.id, granted, heldByOthers };
    },
    release(key: LeaseKey, amount: number): void {
      version += 1;
      const found = leaseOf(key);
      if (!found) return;
      found.lease.amount -= amount;
      found.counter.leased -= amount;
    },
    reconcile(key: LeaseKey, held: number, debited: number): boolean {
      version += 1;
      const found = leaseOf(key);
      if (!found) return false;
      const lowered = Math.max(0, found.lease.amount - (held - found.lease.debited + debited));
      found.lease.amount -= lowered;
      found.counter.leased -= lowered;
      return true;
    },
    remove(key: LeaseKey): void {
      version += 1;
      const found = leaseOf(key);
      if (!found) return;
      found.counter.leased -= found.lease.amount;
      found.counter.leases.delete(key.process);
    },
    publish(process: string, reserved: ReadonlyMap<number, number>): void {
      for (const [id, amount] of reserved) {
        const lease = byId(id)?.leases.get(process);
        if (lease) lease.reserved = amount;
      }
    },
    requestReturn(process: string, counterId: number): void {
      const counter = byId(counterId);
      if (counter) counter.returnRequest = { process, at: now() };
    },
    returnRequests: (process: string, counterIds: readonly number[]): number[] =>
      counterIds.filter((id) => {
        const counter = byId(id);
        return counter && isRequestedByOthers(counter, process);
      }),
    revokeAll(process: string): number {
      version += 1;
      let revoked = 0;
      for (const counter of counters.values()) {
        const lease = counter.leases.get(process);
        if (!lease) continue;
        counter.leased -= lease.amount;
        counter.leases.delete(process);
        revoked += 1;
      }
      return revoked;
    },
    list() {
      const leases = [...counters.values()].flatMap(({ key, leases }) =>
        [...leases.keys()].map((process) => ({ process, start: key.start })),
      );
      const processes = [...new Set(leases.map(({ process }) => process))].toSorted();
      return processes.map((process) => {
        const starts = leases.filter((lease) => lease.process === process).map(({ start }) => start);
        return { process, counters: starts.length, oldestWindow: new Date(Math.min(...starts)) };
      });
    },
    /** Stores and counts the calls that are not stored yet. */
    storeCalls(batch: readonly SettledCall[]): void {
      version += 1;
      const added = batch.filter(({ metadata }) => !calls.has(metadata.id));
      for (const call of added) calls.set(call.metadata.id, call);
      for (const counter of counters.values()) counter.settled += sumOf(added, counter.key);
      for (const { result } of added) {
        for (const { counter: counterId, generation, amount } of result.consumed?.amounts ?? []) {
          const found = leaseOf({ process: result.consumed?.process ?? '', counterId, generation });
          if (!found) continue;
          found.lease.amount -= amount;
          found.lease.debited += amount;
          found.counter.leased -= amount;
        }
      }
    },
    /**
     * Deletes counters of minutes and days that ended before `epochMs`. The real store waits an hour longer, so no
     * process is in such a window.
     */
    deleteExpired(epochMs: number): void {
      version += 1;
      for (const [name, { key }] of counters) {
        if ((key.window === 'minute' || key.window === 'day') && key.end !== null && key.end < epochMs) counters.delete(name);
      }
    },
  };
}

/** Gives a process an interface to the model. `request` carries each statement to the store and its result back. */
export function createModelLeaseStore(
  store: CeilingsStore,
  request: <Result>(execute: () => Result) => Promise<Result>,
  notify: (process: string, counterId: number) => void,
): LeaseStore {
  return {
    async acquire(wanted) {
      const grant = await request(() => store.acquire(wanted));
      if (grant !== undefined) return grant;
      await request(() => store.createCounter(wanted.counter));
      const second = await request(() => store.acquire(wanted));
      if (second === undefined) throw new Error('expected to find the counter that was just inserted');
      return second;
    },
    release: (lease, amount) => request(() => store.release(lease, amount)),
    reconcile: (lease, held, debited) => request(() => store.reconcile(lease, held, debited)),
    remove: (lease) => request(() => store.remove(lease)),
    publish: (process, reserved) => request(() => store.publish(process, reserved)),
    requestReturn: ({ process, counterId }) =>
      request(() => {
        store.requestReturn(process, counterId);
        notify(process, counterId);
      }),
    returnRequests: (process, counterIds) => request(() => store.returnRequests(process, counterIds)),
    revokeAll: (process) => request(() => store.revokeAll(process)),
    list: () => request(() => store.list()),
  };
}

function sumOf(calls: readonly SettledCall[], key: CounterKey): number {
  return calls.reduce((sum, call) => sum + (belongsTo(call, key) ? usageFor(key.ceiling, call.result) : 0), 0);
}

function belongsTo({ metadata }: SettledCall, { projectId, scope, scopeId, start, end }: CounterKey): boolean {
  const { startedAt, keyId, source } = metadata;
  if (metadata.projectId !== projectId || startedAt < start || (end !== null && startedAt >= end)) return false;
  return scope === 'project' || scopeId === (scope === 'key' ? keyId : source);
}
