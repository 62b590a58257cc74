/**
 * A simulated world with virtual time, hosts that start, die and are cut off, and a network to a store that all hosts
 * share. The product's code runs in it without changes, because the global timers and `performance.now` are replaced
 * during each step.
 *
 * There's one event at a time, in the order of virtual time. The next one only happens when all promises have run as
 * far as they can. This is why a run only depends on its seed.
 */
import type { Random } from '../support/random.ts';

/** A process of the product. */
export interface Host {
  readonly name: string;
  isAlive: boolean;
  /** Requests and answers are lost. */
  isCutOff: boolean;
  /** Statements that were neither answered nor given up. */
  unanswered: number;
}

interface Event {
  readonly at: number;
  readonly order: number;
  /** Whose code runs; null for the world's own steps and the store. */
  readonly host: Host | null;
  readonly run: () => void;
}

export interface NetworkFaults {
  /** Share of requests, and of answers, that are lost. */
  readonly loss: number;
  /** Share of messages that take seconds. */
  readonly delay: number;
}

/**
 * When a client gives up a statement; the store never executes it later. (After 35 seconds in the product, which takes
 * too many steps.)
 */
const giveUpMs = 12_000;

/** How long the store may work on a statement of a process that died: recovery starts later. */
export const lateMs = 5_000;

const realSetImmediate = globalThis.setImmediate;
const realTimers = {
  setTimeout: globalThis.setTimeout,
  clearTimeout: globalThis.clearTimeout,
  setInterval: globalThis.setInterval,
  clearInterval: globalThis.clearInterval,
  setImmediate: globalThis.setImmediate,
};
const realNow = performance.now;

export type World = ReturnType<typeof createWorld>;

/** `usesFiles`: the hosts' code uses the real file system, and a step ends when its operations have ended too. */
export function createWorld(random: Random, usesFiles = false) {
  const events: Event[] = [];
  let now = 0;
  let order = 0;
  let current: Host | null = null;
  let faults: NetworkFaults = { loss: 0, delay: 0 };

  const schedule = (delayMs: number, host: Host | null, run: () => void): Event => {
    order += 1;
    const event = { at: now + Math.max(0, delayMs), order, host, run };
    let index = events.length;
    for (; index > 0; index -= 1) if ((events[index - 1]?.at ?? 0) <= event.at) break;
    events.splice(index, 0, event);
    return event;
  };
  const cancel = (event: Event | undefined): void => {
    const index = event ? events.indexOf(event) : -1;
    if (index >= 0) events.splice(index, 1);
  };

  const setTimer = (repeats: boolean, run: () => void, delayMs = 0): object => {
    const host = current;
    const fire = (): void => {
      if (repeats) timer.event = schedule(delayMs, host, fire);
      run();
    };
    const timer = { event: schedule(Math.max(1, delayMs), host, fire), unref: () => timer, ref: () => timer };
    return timer;
  };
  const clearTimer = (timer: unknown): void => {
    if (typeof timer === 'object' && timer !== null && 'event' in timer) cancel(timer.event as Event);
  };
  const timers = {
    setTimeout: (run: () => void, delayMs?: number) => setTimer(false, run, delayMs),
    clearTimeout: clearTimer,
    setInterval: (run: () => void, delayMs?: number) => setTimer(true, run, delayMs),
    clearInterval: clearTimer,
    setImmediate: (run: () => void) => setTimer(false, run, 0),
  };

  const latencyMs = (): number => {
    if (random.chance(faults.delay)) return random.between(10, random.chance(0.3) ? 10_000 : 3_000);
    return random.between(0, 4);
  };

  /** Runs `run`, and everything that follows from it, as code of the host. */
  const runAs = async (host: Host | null, run: () => void): Promise<void> => {
    if (!host) return run();
    current = host;
    run();
    do await new Promise<void>((resolve) => realSetImmediate(resolve));
    while (usesFiles && isUsingFiles());
    current = null;
  };

  return {
    random,
    now: () => now,
    /** Sets the network faults from now on. */
    setFaults(next: NetworkFaults): void {
      faults = next;
    },
    /**
     * Runs code of a host after a delay, unless the host has died by then. With null it is code of the world, which has
     * to be synchronous.
     */
    after: (delayMs: number, host: Host | null, run: () => void): void => void schedule(delayMs, host, run),
    /** A statement of a host. It is executed once or not at all, and may or may not get a response. */
    request<Result>(host: Host, execute: () => Result): Promise<Result> {
      const { promise, resolve, reject } = Promise.withResolvers<Result>();
      host.unanswered += 1;
      const answered = (): void => {
        host.unanswered -= 1;
      };
      promise.then(answered, answered);
      const fail = (delayMs: number): void => {
        // A broken connection is noticed immediately, or when the client gives up.
        const ms = random.chance(0.7) ? delayMs : giveUpMs;
        schedule(ms, host, () => reject(Object.assign(new Error('connection lost'), { code: 'ECONNRESET' })));
      };
      if (random.chance(faults.loss)) {
        fail(latencyMs());
        return promise;
      }
      const sentAt = now;
      schedule(latencyMs(), null, () => {
        if (host.isCutOff) return fail(latencyMs());
        // A statement that the process sent before it died may still be executed, but not after the recovery of its
        // journal.
        if (!host.isAlive && (now > sentAt + lateMs || random.chance(0.5))) return;
        let answer: () => void;
        try {
          const result = execute();
          answer = () => resolve(result);
        } catch (error) {
          answer = () => reject(error);
        }
        if (random.chance(faults.loss)) return fail(latencyMs());
        const ms = latencyMs();
        schedule(ms, host, () => (host.isCutOff ? fail(0) : answer()));
      });
      return promise;
    },
    /** Executes the next event and returns whose code ran. Returns undefined if there is none until `untilMs`. */
    async step(untilMs: number): Promise<Host | null | undefined> {
      const next = events[0];
      if (!next || next.at > untilMs) {
        now = untilMs;
        return undefined;
      }
      events.shift();
      now = next.at;
      if (!next.host || next.host.isAlive) await runAs(next.host, next.run);
      return next.host;
    },
    /** Runs `work` with the world's timers instead of the real ones. */
    async rule<Result>(work: () => Promise<Result>): Promise<Result> {
      Object.assign(globalThis, timers);
      performance.now = () => now;
      try {
        return await work();
      } finally {
        Object.assign(globalThis, realTimers);
        performance.now = realNow;
      }
    },
  };
}

function isUsingFiles(): boolean {
  return process.getActiveResourcesInfo().some((name) => name.startsWith('FSReq') || name === 'CloseReq');
}
