/** Observes all processes and the store, to find out what calls have used and reserved, and if the invariants hold. */
import { type CounterKey, countersFor, formatCounterKey, type LimitedCounter, type Limits } from '../../src/ceilings/counters.ts';
import type { AcquireRequest } from '../../src/ceilings/lease-store.ts';
import type { CallResult, SettledCall } from '../../src/core/call.ts';
import { usageFor } from '../../src/core/ceiling-usage.ts';
import { minuteMs } from '../../src/core/time.ts';
import type { SimulatedProcess } from './ceilings-run.ts';
import type { CeilingsStore } from './ceilings-store.ts';
import {
  eachCallIsCountedOnce,
  grantedIsWithinLimit,
  grantIsWithinLimit,
  outstandingIsGrantedMinusReturned,
  reservationsAreNotNegative,
  useIsWithinCeiling,
} from './invariants.ts';

interface ObservedCounter {
  readonly key: CounterKey;
  readonly name: string;
  settled: number;
  /** How much all calls together have used beyond their reservations. */
  excess: number;
  /** The most that a single call has used beyond its reservation. */
  largestExcess: number;
  /** How much was used by calls that ran without a reservation because the store was unavailable. */
  unreserved: number;
  /** Reservations of running calls, by process. We keep those of a dead process until its journal is recovered. */
  readonly reserved: Map<SimulatedProcess, number>;
  /** What a process that was written off may have used, or may still use, from its lease. */
  readonly revoked: Map<SimulatedProcess, number>;
  /** How much of that was used when the process was written off, and since then. */
  readonly usedOfRevoked: Map<SimulatedProcess, number>;
  /** Calls of a recovered journal whose leases are not revoked yet. */
  readonly recovering: Map<SimulatedProcess, number>;
  /** The state after the last step. A lowered ceiling ends no call, so usage above it may stay, but not grow. */
  before: { readonly use: number; readonly excess: number };
  /** The highest limit of its calls. */
  highestLimit: number;
}

export function createUseObserver(store: CeilingsStore, processes: readonly SimulatedProcess[]) {
  const counters = new Map<string, ObservedCounter>();
  /** The counters of each process's calls. */
  const countersOf = new Map<SimulatedProcess, Set<ObservedCounter>>();
  /** Processes that were written off but do not know it yet. */
  const writtenOff = new Set<SimulatedProcess>();
  let hasChanged = false;
  /** The ceiling under which a process last received quota, by counter and process. */
  const grantedUnder = new Map<string, number>();
  /** The counter that the last step granted from. */
  let grantedKey: CounterKey | null = null;

  const observe = ({ key, name, limit }: LimitedCounter): ObservedCounter => {
    const existing = counters.get(name);
    if (existing) {
      existing.highestLimit = Math.max(existing.highestLimit, limit);
      return existing;
    }
    const maps = { reserved: new Map(), revoked: new Map(), usedOfRevoked: new Map(), recovering: new Map() };
    const counter: ObservedCounter = {
      ...{ key, name, settled: 0, excess: 0, largestExcess: 0, unreserved: 0 },
      ...maps,
      before: { use: 0, excess: 0 },
      highestLimit: limit,
    };
    counters.set(name, counter);
    return counter;
  };

  const observedFor = (limits: Limits, startedAt: number): ObservedCounter[] => limitedFor(limits, startedAt).map(observe);

  const usageOf = (calls: readonly SettledCall[], { key }: ObservedCounter): number =>
    calls.reduce((sum, { metadata: { startedAt }, result }) => {
      const isInWindow = startedAt >= key.start && (key.end === null || startedAt < key.end);
      return sum + (isInWindow ? usageFor(key.ceiling, result) : 0);
    }, 0);

  /** Usage that is reserved, or settled but not stored. */
  const usedBy = (process: SimulatedProcess, counter: ObservedCounter): number =>
    process.admission.reservedFor(counter.key) + usageOf(process.journal, counter);

  const readReservations = (process: SimulatedProcess): void => {
    for (const { name, key, reserved } of countersOf.get(process) ?? []) {
      const own = process.admission.reservedFor(key);
      reservationsAreNotNegative({ name, reserved: own });
      if (own > 0) reserved.set(process, own);
      else reserved.delete(process);
    }
  };

  /** `process` is the one whose code ran. */
  const checkUse = (counter: ObservedCounter, process: SimulatedProcess | undefined): void => {
    const { name, settled, revoked, before } = counter;
    const reserved = sum(counter.reserved);
    const excess = promisedExcess(counter);
    counter.before = { use: settled + reserved, excess };
    if (counter.before.use <= before.use) return;
    const known = processes
      .filter(({ isAlive }) => isAlive)
      .flatMap(({ limits, waiting, clock }) => [{ limits, startedAt: clock.now() }, ...waiting])
      .flatMap(({ limits, startedAt }) => limitedFor(limits, startedAt))
      .flatMap((counter) => (counter.name === name ? counter.limit : []));
    const current = known.length > 0 ? Math.max(...known) : counter.highestLimit;
    // This process uses what it received under this ceiling, while others have used what they received under a higher
    // one.
    const isGranted = (grantedUnder.get(`${process?.name} ${name}`) ?? Number.POSITIVE_INFINITY) <= current;
    const limit = Math.max(isGranted ? counter.highestLimit : current, before.use - before.excess - sum(revoked));
    useIsWithinCeiling({ name, limit, settled, reserved, excess: excess + sum(revoked) });
  };

  /**
   * The highest ceiling under which its quota may have been leased. That includes the one of the previous minute, in
   * which a process leases ahead.
   */
  const highestLimitOf = ({ key, highestLimit }: ObservedCounter): number =>
    Math.max(highestLimit, counters.get(formatCounterKey({ ...key, start: key.start - minuteMs }))?.highestLimit ?? 0);

  const checkGrant = (key: CounterKey): void => {
    const name = formatCounterKey(key);
    const stored = store.find(key);
    const counter = counters.get(name);
    if (stored && counter) grantIsWithinLimit({ ...stored, name }, highestLimitOf(counter));
  };

  const checkStore = (): void => {
    for (const { key, settled, leased, leases } of store.counters()) {
      const name = formatCounterKey(key);
      const stored = { name, settled, leased, leases: [...leases.values()].map(({ amount }) => amount), usage: store.usageOf(key) };
      outstandingIsGrantedMinusReturned(stored);
      eachCallIsCountedOnce(stored);
      const counter = counters.get(name);
      if (counter)
        grantedIsWithinLimit(stored, highestLimitOf(counter), promisedExcess(counter) + sum(counter.revoked) + sum(counter.recovering));
    }
  };

  /** Like `countersFor`, which returns the same for all calls of a minute. */
  const limitedFor = (limits: Limits, startedAt: number): readonly LimitedCounter[] => {
    const minute = Math.floor(startedAt / 60_000);
    const byMinute = limited.get(limits) ?? new Map<number, readonly LimitedCounter[]>();
    limited.set(limits, byMinute);
    const known = byMinute.get(minute) ?? countersFor(limits, startedAt);
    byMinute.set(minute, known);
    return known;
  };
  const limited = new WeakMap<Limits, Map<number, readonly LimitedCounter[]>>();
  let checkedVersion = -1;

  return {
    started(process: SimulatedProcess, limits: Limits, startedAt: number): void {
      const own = countersOf.get(process) ?? new Set();
      countersOf.set(process, own);
      for (const counter of observedFor(limits, startedAt)) own.add(counter);
    },
    /** We check this after the step, because an error that a statement throws would become its result. */
    granted({ counter, process, limit }: AcquireRequest): void {
      grantedKey = counter;
      grantedUnder.set(`${process} ${formatCounterKey(counter)}`, limit);
    },
    /** Returns what the process has reserved on each counter of a call. */
    reservedBy: ({ admission }: SimulatedProcess, limits: Limits, startedAt: number): number[] =>
      observedFor(limits, startedAt).map(({ key }) => admission.reservedFor(key)),
    /** A call has ended. `before` is what `reservedBy` returned before that. */
    settled(process: SimulatedProcess, limits: Limits, startedAt: number, before: readonly number[], result: CallResult): void {
      for (const [index, counter] of observedFor(limits, startedAt).entries()) {
        const reserved = (before[index] ?? 0) - process.admission.reservedFor(counter.key);
        const spent = usageFor(counter.key.ceiling, result);
        if (writtenOff.has(process)) counter.usedOfRevoked.set(process, (counter.usedOfRevoked.get(process) ?? 0) + spent);
        counter.settled += spent;
        addExcess(counter, spent, reserved);
      }
    },
    /** The store will never count these calls. */
    reverted(calls: readonly SettledCall[]): void {
      hasChanged = true;
      for (const counter of counters.values()) counter.settled -= usageOf(calls, counter);
    },
    /** The running calls of the process were settled as unknown. */
    recovered(process: SimulatedProcess, calls: readonly SettledCall[]): void {
      hasChanged = true;
      for (const counter of counters.values()) {
        const spent = usageOf(calls, counter);
        counter.settled += spent;
        const unmetered = usageOf(
          calls.filter(({ metadata }) => metadata.unmetered),
          counter,
        );
        counter.unreserved += unmetered;
        addExcess(counter, spent - unmetered, counter.reserved.get(process) ?? 0);
        counter.recovering.set(process, spent);
        counter.reserved.delete(process);
      }
    },
    /** An operator wrote the process off, or its recovery has ended. Call this before its leases are revoked. */
    revoked(process: SimulatedProcess): void {
      if (process.isAlive) writtenOff.add(process);
      for (const stored of store.counters()) {
        // Includes quota that was leased ahead for a minute without a call so far.
        const counter = observe({ key: stored.key, name: formatCounterKey(stored.key), limit: 0, readAt: 0 });
        counter.recovering.delete(process);
        if (!process.isAlive) continue;
        counter.revoked.set(process, (stored.leases.get(process.name)?.amount ?? 0) + (counter.revoked.get(process) ?? 0));
        counter.usedOfRevoked.set(process, Math.max(usedBy(process, counter), counter.usedOfRevoked.get(process) ?? 0));
      }
    },
    /** The process knows that its leases may be revoked and grants nothing from them any more. */
    verified(process: SimulatedProcess): void {
      writtenOff.delete(process);
      for (const counter of counters.values()) {
        const revoked = counter.revoked.get(process);
        const used = (counter.usedOfRevoked.get(process) ?? 0) + process.admission.reservedFor(counter.key);
        if (revoked !== undefined) counter.revoked.set(process, Math.min(revoked, used));
      }
    },
    /**
     * What the ceilings leave for the next call of a process: calls, and tokens or nano-dollars. Null if the window
     * ended at least three seconds ago by the clock of another process, which drops what it has leased from it after
     * five.
     */
    freeFor({ limits, clock }: SimulatedProcess): { readonly slots: number; readonly amount: number } | null {
      const free = { slots: 1_000, amount: 1_000 };
      const latest = Math.max(...processes.filter(({ isAlive }) => isAlive).map((process) => process.clock.now()));
      for (const { key, limit, name } of limitedFor(limits, clock.now())) {
        if (key.end !== null && latest >= key.end + 3_000) return null;
        const counter = counters.get(name);
        const left = limit - (counter ? counter.settled + sum(counter.reserved) : 0);
        if (key.ceiling === 'calls' || key.ceiling === 'rpm') free.slots = Math.min(free.slots, left);
        else free.amount = Math.min(free.amount, left);
      }
      return free;
    },
    /** `process` is the one whose code ran. */
    check(process: SimulatedProcess | undefined): void {
      if (process?.isAlive) readReservations(process);
      if (process || hasChanged) for (const counter of counters.values()) checkUse(counter, process);
      hasChanged = false;
      if (store.version() !== checkedVersion) checkStore();
      if (grantedKey) checkGrant(grantedKey);
      grantedKey = null;
      checkedVersion = store.version();
    },
  };
}

/** Returns by how much the ceiling may be exceeded according to docs/architecture/ceilings.md#promises. */
function promisedExcess({ key, excess, largestExcess, unreserved }: ObservedCounter): number {
  if (key.ceiling === 'tpm') return unreserved + excess;
  return key.ceiling === 'cost' ? unreserved + largestExcess : unreserved;
}

function addExcess(counter: ObservedCounter, spent: number, reserved: number): void {
  if (reserved === 0) counter.unreserved += spent;
  else {
    counter.excess += Math.max(0, spent - reserved);
    counter.largestExcess = Math.max(counter.largestExcess, spent - reserved);
  }
}

function sum(amounts: ReadonlyMap<unknown, number>): number {
  let total = 0;
  for (const amount of amounts.values()) total += amount;
  return total;
}
