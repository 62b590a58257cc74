/**
 * Decides in which order requests start. Node hands them over in the order in which they arrive, so if one project
 * opens 2,000 streams at once, everyone else would have to wait until all of them are open, which takes seconds.
 *
 * In each turn of the event loop, a project can start up to `burst` requests. If it sends more, they wait for later
 * turns. Among the projects with waiting requests, the one with the fewest goes first, because that delays the
 * others the least. The rest take turns. We can't know in advance how much CPU time a request takes, so we start fewer
 * of them if the previous turn was long.
 *
 * Requests that aren't calls, e.g. searches of memory, can take as long as ten calls. So while calls of other projects
 * are waiting, and for half a second after that, we only start a few of them.
 *
 * Node accepts only a few connections per turn (`listen.ts`). While connections keep arriving, we keep the turns short
 * by starting no requests. Otherwise a client that connects after someone who opens 2,000 streams would have to wait
 * until almost all of these are open.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { RequestOwner } from './request-owner.ts';
import { createRequestQueue, type RequestQueue } from './request-queue.ts';

const burst = 16;
/** How many health checks a turn starts. */
const maxProbes = 4 * burst;
/**
 * If a turn takes longer than this, we halve the number of waiting requests that we start in the next one. A call takes
 * several turns, so we can't avoid delaying small projects, but their calls only take a few times as long.
 */
const longTurnMs = 5;
/**
 * While connections keep arriving, we accept those first and postpone requests for up to this long. On Linux, this is
 * enough to accept about a hundred connections.
 */
const maxAcceptMs = 5;
/**
 * If more requests than this are waiting, each turn starts as many as have just arrived, or as many as exceed this
 * number if that's less. Waiting requests take up memory, so this stops the queue from growing. It doesn't apply to
 * requests that let calls go first. The more of those are waiting, the more often we start them.
 */
const maxWaiting = 10_000;

/** While calls of other projects are waiting, a project can only start one of its other requests in this time. */
const yieldMs = 50;
/** If many such requests are waiting, we start them more often, so that each waits for about this long at most. */
const maxYieldMs = 2_000;
/**
 * If calls had to wait for at least `minContentionMs`, other projects keep yielding for `contendedMs` after the last
 * one has started. Otherwise, all requests that had to wait would start at once, and calls would have to wait again.
 */
const [minContentionMs, contendedMs] = [20, 500];
/** How often we check whether a request may start if no calls are waiting any more. */
const pollMs = 10;

export interface FairStartsOptions {
  /** Requests of the same owner share one place in the rotation. */
  readonly ownerOf: RequestOwner;
  readonly now?: () => number;
  readonly nextTurn?: ((run: () => void) => void) | undefined;
  /** Called with a delay in milliseconds. */
  readonly later?: (run: () => void, ms: number) => void;
}

type Queues = Map<string, RequestQueue>;

export interface FairStarts {
  readonly listener: RequestListener;
  /** Call this whenever a connection has been accepted. */
  readonly connectionAccepted: () => void;
}

/**
 * Returns a listener that collects the requests of a turn, and doesn't handle any of them until all have been read. It
 * would be simpler to handle each request right after reading it, but that takes 8 % more CPU time per chat call
 * (measured with 16 connections), probably because reading and handling evict each other's code from the CPU caches.
 */
export function startFairly(listener: RequestListener, options: FairStartsOptions): FairStarts {
  const { ownerOf, now = () => performance.now(), nextTurn = setImmediate, later = setTimeout } = options;
  let arrived: ServerResponse[] = [];
  /** The calls that we couldn't start in earlier turns, by owner. The first owner in the map is served next. */
  const calls: Queues = new Map();
  /** The same for requests that aren't calls. */
  const others: Queues = new Map();
  /** Since when calls of an owner have been waiting. */
  const waitingSince = new Map<string, number>();
  /** When calls of an owner had last been waiting for at least `minContentionMs`. Forgotten after `contendedMs`. */
  const waitedAt = new Map<string, number>();
  /** When an owner last started a request that isn't a call and had to yield. Forgotten after `yieldMs`. */
  const yieldedAt = new Map<string, number>();
  let isScheduled = false;
  let isDelayed = false;
  /** True if the last turn left requests that this turn may start. */
  let isDraining = false;
  let turnStartedAt = 0;
  let perTurn = burst;
  let hasAccepted = false;
  /** When we began to hold back requests in order to accept connections first. Null if we aren't holding any back. */
  let acceptingSince: number | null = null;

  const schedule = (): void => {
    if (isScheduled) return;
    isScheduled = true;
    nextTurn(runTurn);
  };

  /**
   * If we only have to wait until a request may start, turns without a pause would keep the event loop busy for
   * nothing.
   */
  const scheduleLater = (): void => {
    if (isScheduled || isDelayed) return;
    isDelayed = true;
    later(() => {
      isDelayed = false;
      schedule();
    }, pollMs);
  };

  /**
   * Returns true if more connections are probably waiting to be accepted, so that this turn shouldn't start any
   * requests.
   */
  const isAccepting = (): boolean => {
    if (!hasAccepted && acceptingSince === null) return false;
    const time = now();
    acceptingSince ??= time;
    const elapsedMs = time - acceptingSince;
    if (hasAccepted && elapsedMs < maxAcceptMs) {
      hasAccepted = false;
      return true;
    }
    // The time that we spent on connections doesn't count as part of the turn, because the requests didn't cause it.
    turnStartedAt += elapsedMs;
    acceptingSince = null;
    return false;
  };

  const runTurn = (): void => {
    isScheduled = false;
    if (isAccepting()) {
      schedule();
      return;
    }
    const responses = arrived;
    arrived = [];
    if (calls.size + others.size + waitedAt.size === 0 && responses.length <= burst) startAll(responses);
    else startInTurns(responses);
  };

  const startInTurns = (responses: readonly ServerResponse[]): void => {
    const time = now();
    const lastTurnMs = time - turnStartedAt;
    turnStartedAt = time;
    if (!isDraining) perTurn = burst;
    else perTurn = lastTurnMs > longTurnMs ? Math.ceil(perTurn / 2) : perTurn + 1;

    const { probe: probes = [], call = [], other = [] } = Object.groupBy(responses, ({ req }) => kindOf(req));
    arrived = probes.slice(maxProbes);
    startAll(probes.slice(0, maxProbes));
    for (const [owner, requests] of byOwner(call)) startOrQueue(calls, owner, requests);
    for (const owner of calls.keys()) {
      const since = waitingSince.get(owner) ?? time;
      waitingSince.set(owner, since);
      if (time - since >= minContentionMs) waitedAt.set(owner, time);
    }
    for (const [owner, requests] of byOwner(other)) {
      if (mustYield(owner)) enqueue(others, owner, requests);
      else startOrQueue(others, owner, requests);
    }

    const backlog = [...calls.values(), ...others.values()].reduce((sum, queue) => sum + queue.length(), 0);
    const limit = Math.max(perTurn, Math.min(responses.length, backlog - maxWaiting));
    startWaiting(calls, [...calls.keys()], limit);
    const { yielding = [], free = [] } = Object.groupBy([...others.keys()], (owner) => (mustYield(owner) ? 'yielding' : 'free'));
    startWaiting(others, free, limit);
    for (const owner of yielding) startYielding(owner, time, lastTurnMs);
    for (const [owner, at] of yieldedAt) if (time - at >= yieldMs) yieldedAt.delete(owner);
    for (const [owner, at] of waitedAt) if (time - at >= contendedMs) waitedAt.delete(owner);
    for (const owner of waitingSince.keys()) if (!calls.has(owner)) waitingSince.delete(owner);
    isDraining = calls.size > 0 || free.length > 0;
    if (isDraining || arrived.length > 0) schedule();
    else if (others.size > 0) scheduleLater();
  };

  /** Returns true if calls of another owner are waiting, or were a moment ago. */
  const mustYield = (owner: string): boolean => [calls, waitedAt].some((owners) => owners.size > (owners.has(owner) ? 1 : 0));

  const startOrQueue = (queues: Queues, owner: string, requests: ServerResponse[]): void => {
    if (queues.has(owner) || requests.length > burst) enqueue(queues, owner, requests);
    else startAll(requests);
  };

  /**
   * Starts waiting requests of `owners`: first those of the owner with the fewest, and then up to `limit` more in
   * rotation.
   */
  const startWaiting = (queues: Queues, owners: readonly string[], limit: number): void => {
    if (owners.length > 1) {
      const lengthOf = (owner: string): number => queues.get(owner)?.length() ?? 0;
      start(
        queues,
        owners.reduce((one, two) => (lengthOf(two) < lengthOf(one) ? two : one)),
        4 * burst,
      );
    }
    let left = limit;
    const rotation = new Set(owners);
    for (const owner of rotation) {
      rotation.delete(owner);
      if (!queues.has(owner)) continue;
      if (left === 0) return;
      start(queues, owner, 1);
      left -= 1;
      // The loop comes back to owners that are added again.
      rotation.add(owner);
    }
  };

  /** Starts a request every `yieldMs`, or more often if the owner has many. */
  const startYielding = (owner: string, time: number, lastTurnMs: number): void => {
    const intervalMs = Math.min(yieldMs, maxYieldMs / (others.get(owner)?.length() ?? 0));
    const startedAt = yieldedAt.get(owner);
    const elapsedMs = startedAt === undefined ? intervalMs : Math.min(time - startedAt, intervalMs + lastTurnMs);
    const due = Math.floor(elapsedMs / intervalMs);
    if (due > 0) yieldedAt.set(owner, time - (elapsedMs % intervalMs));
    start(others, owner, due);
  };

  const byOwner = (responses: readonly ServerResponse[]): Map<string, ServerResponse[]> => {
    const owned = new Map<string, ServerResponse[]>();
    // Group the requests by their credentials first, so that we look up each key only once.
    for (const requests of Map.groupBy(responses, ({ req }) => credentialsOf(req)).values()) {
      const owner = requests[0] ? ownerOf(requests[0].req) : '';
      const earlier = owned.get(owner);
      if (earlier) for (const response of requests) earlier.push(response);
      else owned.set(owner, requests);
    }
    return owned;
  };

  /** Starts up to `count` requests of an owner, and moves the owner to the end of the rotation. */
  const start = (queues: Queues, owner: string, count: number): void => {
    const queue = queues.get(owner);
    if (!queue) return;
    queues.delete(owner);
    for (const response of queue.take(count)) listener(response.req, response);
    if (queue.length() > 0) queues.set(owner, queue);
  };

  const startAll = (responses: readonly ServerResponse[]): void => {
    for (const response of responses) if (!response.req.destroyed) listener(response.req, response);
  };

  return {
    listener(_request, response) {
      arrived.push(response);
      schedule();
    },
    connectionAccepted() {
      hasAccepted = true;
    },
  };
}

function enqueue(queues: Queues, owner: string, requests: readonly ServerResponse[]): void {
  const queue = queues.get(owner) ?? createRequestQueue();
  for (const response of requests) queue.add(response);
  queues.set(owner, queue);
}

/**
 * Distinguishes calls from other requests. The list of models counts as a call, because it takes hardly any time. The
 * probes of load balancers start immediately, because otherwise a flood of requests could take the process out of
 * service.
 */
function kindOf({ url = '' }: IncomingMessage): 'probe' | 'call' | 'other' {
  const path = url.replace(/^https?:\/\/[^/?#]*/i, '');
  if (/^\/(?:healthz|readyz)\/?(?:\?|$)/i.test(path)) return 'probe';
  return /^\/+v1\/+(?!\/|memory\/)/i.test(path) ? 'call' : 'other';
}

/**
 * Returns a string that identifies the credentials of a request. Requests with the same credentials always have the
 * same owner.
 */
function credentialsOf({ headers, socket }: IncomingMessage): string {
  return headers.authorization ?? String(headers['x-api-key'] ?? socket.remoteAddress);
}
