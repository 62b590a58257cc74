/**
 * A run of the ceilings protocol with a seed. Processes with the real admission, leases and quotas use a model of the
 * store. Meanwhile, messages are delayed and lost, processes die, are cut off and written off, windows end, ceilings
 * change and clocks differ.
 *
 * The invariants are checked after every event. At the end there are no more faults, and every call that fits has to be
 * admitted.
 */
import { type Admission, createAdmission } from '../../src/ceilings/admission.ts';
import type { Limits } from '../../src/ceilings/counters.ts';
import { quotaReturnChannel } from '../../src/ceilings/lease-store.ts';
import type { Reservation } from '../../src/ceilings/reservation.ts';
import type { CallResult, SettledCall } from '../../src/core/call.ts';
import { noTokens } from '../../src/core/pricing.ts';
import type { Clock } from '../../src/core/time.ts';
import type { Database } from '../../src/db/database.ts';
import { noon, settledCall } from '../journal/calls.ts';
import { createRandom } from '../support/random.ts';
import { createUseObserver } from './ceilings-observer.ts';
import { type CeilingsPlan, createPlan } from './ceilings-plan.ts';
import { type CeilingsStore, createCeilingsStore, createModelLeaseStore } from './ceilings-store.ts';
import { fittingCallIsAdmitted } from './invariants.ts';
import { createWorld, type Host, lateMs, type World } from './world.ts';

export interface RunningCall {
  readonly limits: Limits;
  readonly startedAt: number;
  readonly reservation: Reservation;
  readonly bound: number;
}

export interface SimulatedProcess extends Host {
  readonly admission: Admission;
  readonly clock: Clock;
  /** The ceilings as this process knows them. */
  limits: Limits;
  readonly running: Set<RunningCall>;
  /** Settled calls that this process doesn't know to be stored. */
  journal: SettledCall[];
  isDraining: boolean;
  /** Calls that wait for quota, with the ceilings that applied when each call began. */
  readonly waiting: Set<{ readonly limits: Limits; readonly startedAt: number }>;
}

const silent = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
const maxCalmMs = 200_000;
/** The journal of a dead process is recovered within this time. */
const maxRecoveryMs = 9_000;

export type CeilingsRun = Readonly<Record<'steps' | 'admitted' | 'denied', number>>;

/** Throws if an invariant is broken. */
export async function runCeilings(seed: number, trace?: (line: string) => void): Promise<CeilingsRun> {
  const random = createRandom(seed);
  const world = createWorld(random);
  return world.rule(() => createRun(createPlan(random), world, trace).run());
}

function createRun(plan: CeilingsPlan, world: World, trace: ((line: string) => void) | undefined) {
  const { random } = world;
  const store = createCeilingsStore(world.now);
  const processes: SimulatedProcess[] = [];
  const listeners = new Map<SimulatedProcess, (payload: string) => void>();
  const observer = createUseObserver(store, processes);
  const observedStore: CeilingsStore = {
    ...store,
    acquire(request) {
      const grant = store.acquire(request);
      if (grant && grant.granted > 0) observer.granted(request);
      return grant;
    },
  };
  const counts = { steps: 0, admitted: 0, denied: 0 };
  let version = 0;
  let isCalm = false;
  let isQuiet = false;
  let incidents = 0;
  let started = 0;
  let calls = 0;

  const note = (line: string): void => trace?.(`${(world.now() / 1_000).toFixed(3)} ${line}`);

  const traced = <Result>(process: SimulatedProcess, execute: () => Result): Result => {
    const result = execute();
    if (trace) note(`  ${process.name}: ${execute.toString().replace(/^\(\) => /, '')} -> ${JSON.stringify(result)}`);
    return result;
  };

  /** Notes what the store holds for each counter, for the trace. */
  const noteStore = (): void => {
    for (const { id, settled, leased, leases } of store.counters())
      note(
        `  counter ${id}: ${settled} settled, ${leased} leased: ${[...leases].map(([name, { amount }]) => `${name} ${amount}`).join(', ')}`,
      );
  };

  const notify = (requester: string, counterId: number): void => {
    for (const process of processes) {
      if (process.isCutOff || plan.losesNotifications) continue;
      const copies = random.chance(0.05) ? 2 : 1;
      for (let copy = 0; copy < copies; copy += 1)
        world.after(random.between(0, 8), process, () => listeners.get(process)?.(`${requester} ${counterId}`));
    }
  };

  const databaseOf = (process: SimulatedProcess): Database => ({
    kind: 'server',
    async query(text, [value] = []) {
      if (text.startsWith('delete from limit_counters') && value instanceof Date)
        await world.request(process, () => store.deleteExpired(Math.min(value.getTime(), ...alive().map(({ clock }) => clock.now()))));
      else await world.request(process, () => undefined);
      return [];
    },
    transaction: () => Promise.reject(new Error('not part of the model')),
    runWithoutTimeout: () => Promise.reject(new Error('not part of the model')),
    async listen(channel, onPayload, onReconnect) {
      if (channel === quotaReturnChannel) listeners.set(process, onPayload);
      const check = (): void => {
        onReconnect?.();
        world.after(5_000, process, check);
      };
      if (plan.losesNotifications) check();
      return { stop: async () => void listeners.delete(process) };
    },
    close: async () => undefined,
  });

  const start = (): void => {
    started += 1;
    const id = `process-${started}`;
    const skewMs = plan.skewMs === 0 ? 0 : random.between(-plan.skewMs, plan.skewMs);
    const clock: Clock = { now: () => noon + plan.startMs + Math.floor(world.now()) + skewMs };
    const process: SimulatedProcess = {
      name: id,
      isAlive: true,
      isCutOff: false,
      unanswered: 0,
      limits: plan.limits(version),
      clock,
      running: new Set(),
      journal: [],
      isDraining: false,
      waiting: new Set(),
      get admission(): Admission {
        return admission;
      },
    };
    const admission = createAdmission({
      database: databaseOf(process),
      clock,
      logger: silent,
      process: id,
      onStoreDown: () => plan.onStoreDown,
      onQuotaRequested: () => drain(process),
      leases: createModelLeaseStore(observedStore, (execute) => world.request(process, () => traced(process, execute)), notify),
    });
    processes.push(process);
    world.after(0, process, () => {
      void admission.start();
      const callForever = (): void => {
        if (isCalm) return;
        const { maxBound } = plan;
        void call(process, random.between(0, maxBound));
        world.after(random.between(0, plan.pauseMs), process, callForever);
      };
      callForever();
    });
  };

  /** Stores what the process has settled, like the drain of its journal does. */
  const drain = (process: SimulatedProcess): void => {
    const batch = process.journal.slice(0, 50);
    if (process.isDraining || batch.length === 0) return;
    process.isDraining = true;
    const mayReject = random.chance(plan.rejection);
    const done = world.request(process, () => {
      if (mayReject && !batch.some(({ metadata }) => store.hasStored(metadata.id))) return false;
      store.storeCalls(batch);
      return true;
    });
    done
      .then(
        (isStored) => {
          process.journal = process.journal.slice(batch.length);
          if (isStored) return process.admission.commit(batch);
          observer.reverted(batch);
          for (const rejected of batch) process.admission.revert(rejected);
        },
        () => undefined,
      )
      .finally(() => {
        process.isDraining = false;
        if (process.journal.length > 0) world.after(1_000, process, () => drain(process));
      });
  };

  /** Makes a call. Returns true if it was admitted, false if it was denied, and null if the store was unavailable. */
  const call = (process: SimulatedProcess, bound: number, endsAtOnce = false): Promise<boolean | null> =>
    whileWaiting(process, () => begin(process, bound, endsAtOnce));

  const whileWaiting = async <Result>(process: SimulatedProcess, work: () => Promise<Result>): Promise<Result> => {
    const waiting = { limits: process.limits, startedAt: process.clock.now() };
    process.waiting.add(waiting);
    try {
      return await work();
    } finally {
      // Runs after this step, which is checked with its own ceilings.
      world.after(0, null, () => process.waiting.delete(waiting));
    }
  };

  const begin = async (process: SimulatedProcess, bound: number, endsAtOnce: boolean): Promise<boolean | null> => {
    const { limits, clock, admission } = process;
    const startedAt = clock.now();
    observer.started(process, limits, startedAt);
    let reservation: Reservation;
    try {
      reservation = await admission.admit({
        limits,
        startedAt,
        bounds: () => ({ costNanos: bound, tokens: bound }),
      });
    } catch (error) {
      const status = error instanceof Error && 'status' in error ? error.status : 0;
      if (status !== 429 && status !== 503) throw error;
      note(`${process.name} ${status === 429 ? 'denied' : 'unavailable'} ${bound}`);
      counts.denied += 1;
      return status === 429 ? false : null;
    }
    note(`${process.name} admitted ${bound}${reservation.isUnmetered ? ' unmetered' : ''}`);
    counts.admitted += 1;
    const running = { limits, startedAt, reservation, bound };
    process.running.add(running);
    if (endsAtOnce) {
      end(process, running, bound);
      return !reservation.isUnmetered;
    }
    if (random.chance(0.15)) {
      const isExtended = await reservation.extend(() => ({ costNanos: bound * 2, tokens: bound * 2 }));
      note(`${process.name} ${isExtended ? 'extends' : 'does not extend'} ${bound}`);
    }
    const durationMs = random.chance(plan.longCalls) ? random.between(0, plan.longestCallMs) : random.between(0, 2_000);
    world.after(durationMs, process, () => endSomehow(process, running));
    return true;
  };

  const endSomehow = (process: SimulatedProcess, running: RunningCall): void => {
    if (random.chance(0.1)) {
      process.running.delete(running);
      running.reservation.release();
      return;
    }
    // One in ten calls doesn't reach a vendor.
    if (random.chance(0.1)) end(process, running, null);
    else if (plan.takeExcess()) end(process, running, running.bound + random.between(1, plan.maxBound));
    else end(process, running, random.between(0, running.bound));
  };

  const end = (process: SimulatedProcess, running: RunningCall, spent: number | null): void => {
    process.running.delete(running);
    note(`${process.name} ends ${running.bound} with ${spent}`);
    const { limits, startedAt, reservation } = running;
    // The token reservation is an estimate that a call may exceed, but the cost reservation is an upper bound.
    const ended = endedCall(limits, startedAt, spent, running.bound);
    const before = observer.reservedBy(process, limits, startedAt);
    const result = reservation.settle(ended.result);
    observer.settled(process, limits, startedAt, before, result);
    process.journal.push({ ...ended, result });
    if (process.journal.length === 1) world.after(1_000, process, () => drain(process));
  };

  const endedCall = ({ projectId, keyId, source }: Limits, startedAt: number, spent: number | null, bound: number): SettledCall => {
    calls += 1;
    const tokens = { ...noTokens, output: spent ?? 0 };
    const result: Partial<CallResult> = { costNanos: Math.min(spent ?? 0, bound), tokens, ...(spent === null && { attempts: [] }) };
    return settledCall({ metadata: { id: `call-${calls}`, startedAt, projectId, keyId, source }, result });
  };

  /** The process dies. Later another one takes over its journal, stores its calls, and revokes its leases. */
  const kill = (process: SimulatedProcess): void => {
    note(`${process.name} dies`);
    process.isAlive = false;
    const lost = [...process.running].map(({ limits, startedAt, bound, reservation }) => {
      const { metadata, ...ended } = endedCall(limits, startedAt, random.between(0, bound), bound);
      return { ...ended, metadata: reservation.isUnmetered ? { ...metadata, unmetered: true as const } : metadata };
    });
    incidents += 1;
    const recover = (): void => {
      note(`${process.name} is recovered`);
      store.storeCalls([...process.journal, ...lost]);
      observer.recovered(process, lost);
      world.after(random.between(0, 200), null, () => {
        observer.revoked(process);
        store.revokeAll(process.name);
        incidents -= 1;
      });
    };
    world.after(random.between(lateMs, maxRecoveryMs), null, recover);
    // Starts a second recovery from the beginning.
    if (random.chance(0.3)) world.after(maxRecoveryMs + 1_000, null, () => store.storeCalls([...process.journal, ...lost]));
    world.after(random.between(0, 3_000), null, start);
  };

  /**
   * Cuts the process off. Meanwhile an operator may write it off. The product only allows that after a minute, but the
   * protocol does not rely on it.
   */
  const cutOff = (process: SimulatedProcess): void => {
    const isWrittenOff = random.chance(plan.writeOff);
    const durationMs = random.between(100, random.pick([1_000, 5_000, 12_000]));
    note(`${process.name} is cut off for ${durationMs} ms`);
    process.isCutOff = true;
    incidents += 1;
    if (isWrittenOff)
      world.after(random.between(0, durationMs), null, () => {
        if (!process.isAlive) return;
        note(`${process.name} is written off`);
        observer.revoked(process);
        store.revokeAll(process.name);
        if (random.chance(plan.takeOver)) takeAllThatIsFree(process);
      });
    world.after(durationMs, null, () => {
      process.isCutOff = false;
      const heartbeatMs = random.pick([0, 100, 5_000]);
      world.after(heartbeatMs, process, () => {
        note(`${process.name} reconnects`);
        process.admission.verifyLeases();
        observer.verified(process);
        void call(process, 1, true);
      });
      world.after(heartbeatMs, null, () => {
        incidents -= 1;
      });
    });
  };

  /** Uses up the ceilings before a process that was written off reconnects. */
  const takeAllThatIsFree = (writtenOff: SimulatedProcess): void => {
    const heir = alive().find((process) => process !== writtenOff && !process.isCutOff);
    const free = heir && observer.freeFor(heir);
    if (!free || free.amount < 1) return;
    const calls = Math.min(free.slots, 20);
    for (let n = 0; n < calls; n += 1) {
      const bound = Math.max(1, Math.floor(free.amount / calls));
      world.after(0, heir, () => void call(heir, bound, true));
    }
  };

  const changeLimits = (): void => {
    version += 1;
    note(`ceilings ${version}`);
    for (const process of processes) {
      world.after(random.between(0, 3_000), process, () => {
        note(`${process.name} learns of ceilings ${version}`);
        process.limits = plan.limits(version);
      });
    }
  };

  const alive = (): SimulatedProcess[] => processes.filter(({ isAlive }) => isAlive);

  const runUntil = async (untilMs: number, isDone: () => boolean = () => false): Promise<void> => {
    while (!isDone()) {
      const host = await world.step(untilMs);
      if (host === undefined) return;
      counts.steps += 1;
      observer.check(host ? processes.find((process) => process === host) : undefined);
    }
  };

  /** Every process keeps admitting calls, so that no lease is returned because it is unused. */
  const stayActive = (process: SimulatedProcess): void => {
    const work = async (): Promise<void> => {
      if (isQuiet) return;
      const { limits, clock, admission } = process;
      const startedAt = clock.now();
      observer.started(process, limits, startedAt);
      const request = { limits, startedAt, bounds: () => ({ costNanos: 1, tokens: 1 }) };
      const reservation = await Promise.resolve(admission.admit(request));
      reservation.release();
    };
    world.after(0, process, () => void whileWaiting(process, work).catch(() => undefined));
    if (!isQuiet) world.after(4_000, process, () => stayActive(process));
  };

  /**
   * Every process makes calls in turn until nothing is left, and each call that fits has to be admitted at once. Then
   * we ask each process for more.
   */
  const spendTheRest = async (): Promise<void> => {
    const all = alive();
    for (let turn = 0; turn < 12; turn += 1) {
      const process = all[turn % all.length];
      const free = process && observer.freeFor(process);
      if (!free) return;
      if (free.slots < 1 || free.amount < 1) break;
      const bound = Math.min(free.amount, turn > 8 || random.chance(0.3) ? free.amount : random.between(1, plan.maxBound));
      let outcome: boolean | null | undefined;
      world.after(0, process, () => {
        void call(process, bound, true).then((admitted) => {
          outcome = admitted;
        });
      });
      await runUntil(world.now() + 10_000, () => outcome !== undefined);
      noteStore();
      fittingCallIsAdmitted(outcome === true, `${process.name}: a call of ${bound}, ${JSON.stringify(free)} free, was ${String(outcome)}`);
    }
    for (const process of all) world.after(random.between(0, 200), process, () => void call(process, 1, true));
    await runUntil(world.now() + 1_000);
  };

  return {
    async run(): Promise<CeilingsRun> {
      world.setFaults(plan.faults);
      for (let n = 0; n < plan.processes; n += 1) start();
      for (const { atMs, kind } of plan.incidents) {
        world.after(atMs, null, () => {
          const all = alive();
          const process = all[random.below(all.length)];
          if (kind === 'change') changeLimits();
          else if (process && kind === 'kill') kill(process);
          else if (process && !process.isCutOff) cutOff(process);
        });
      }
      await runUntil(plan.durationMs);
      isCalm = true;
      world.setFaults({ loss: 0, delay: 0 });
      note('calm');
      for (const process of alive()) stayActive(process);
      const hasWork = ({ running, journal, isCutOff, unanswered }: SimulatedProcess): boolean =>
        running.size > 0 || journal.length > 0 || isCutOff || unanswered > 0;
      await runUntil(world.now() + maxCalmMs, () => incidents === 0 && world.now() > plan.durationMs + 3_000 && !alive().some(hasWork));
      await runUntil(world.now() + 4_000);
      isQuiet = true;
      // Long enough for a call that polls for quota of two ceilings.
      await runUntil(world.now() + 2_000);
      for (const process of alive())
        fittingCallIsAdmitted(process.waiting.size === 0 && process.journal.length === 0, `${process.name} still waits`);
      await spendTheRest();
      return counts;
    },
  };
}
