/**
 * Decides in which order requests start. Node hands them over in the order in which they arrive, so if one project
 * opens 2,000 streams at once, everyone else would have to wait until all of them are open, which takes seconds.
 *
 * In each turn of the event loop, a project can start up to `burst` requests. If it sends more, they wait for later
 * turns. Among the projects with waiting requests, the one with the fewest goes first, because that delays the
 * others the least. The rest take turns. We can't know in advance how much CPU time a request takes, so we start fewer
 * of them if the previous turn was long.
 *
 * While calls of other projects are waiting, we start only a few requests of a project that aren't calls, e.g. searches
 * of memory. One of these can take as long as ten calls.
 *
 * Node accepts only a few connections per turn (`listen.ts`). While connections keep arriving, we keep the turns short
 * by starting no requests. Otherwise a client that connects after someone who opens 2,000 streams would have to wait
 * until almost all of these are open.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { RequestOwner } from './request-owner.ts';

const burst = 16;
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
 * If more requests than this are waiting, each turn starts at least as many as have just arrived. Waiting requests take
 * up memory, so this stops the queue from growing.
 */
const maxWaiting = 10_000;

/** How often a project may start a request that isn't a call while calls of other projects are waiting. */
const yieldMs = 20;

export interface FairStartsOptions {
  /** Requests of the same owner share one place in the rotation. */
  readonly ownerOf: RequestOwner;
  readonly now?: () => number;
  readonly nextTurn?: ((run: () => void) => void) | undefined;
}

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
  const { ownerOf, now = () => performance.now(), nextTurn = setImmediate } = options;
  let arrived: ServerResponse[] = [];
  /** The requests that we couldn't start in earlier turns, by owner. The first owner in the map is served next. */
  const waiting = new Map<string, ServerResponse[]>();
  /** The requests that let the waiting calls of other projects go first, by owner. */
  const yielding = new Map<string, ServerResponse[]>();
  /** When an owner may start its next request that isn't a call. Only used while calls are waiting. */
  const nextOtherAt = new Map<string, number>();
  let isScheduled = false;
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
    if (waiting.size === 0 && yielding.size === 0 && responses.length <= burst) startAll(responses);
    else startInTurns(responses);
  };

  const startInTurns = (responses: readonly ServerResponse[]): void => {
    const lastTurnMs = now() - turnStartedAt;
    turnStartedAt += lastTurnMs;
    if (waiting.size === 0) perTurn = burst;
    else perTurn = lastTurnMs > longTurnMs ? Math.ceil(perTurn / 2) : perTurn + 1;
    for (const [owner, requests] of yieldToCalls(byOwner(responses))) {
      const earlier = waiting.get(owner);
      if (earlier) earlier.push(...requests);
      else if (requests.length > burst) waiting.set(owner, requests);
      else startAll(requests);
    }
    if (waiting.size > 1) {
      const [owner] = [...waiting].reduce((one, other) => (other[1].length < one[1].length ? other : one));
      start(owner, 4 * burst);
    }
    const backlog = waiting.values().reduce((sum, { length }) => sum + length, 0);
    for (let left = backlog > maxWaiting ? Math.max(perTurn, responses.length) : perTurn; left > 0; left -= 1) {
      const [next] = waiting.keys();
      if (next === undefined) break;
      start(next, 1);
    }
    if (waiting.size === 0) nextOtherAt.clear();
    if (waiting.size > 0 || yielding.size > 0) schedule();
  };

  /** Returns the requests that can start or wait in turn. The rest let the calls of other projects go first. */
  const yieldToCalls = (arrived: ReadonlyMap<string, ServerResponse[]>): [owner: string, requests: ServerResponse[]][] => {
    const time = now();
    return [...new Set([...yielding.keys(), ...arrived.keys()])].map((owner) => {
      const requests = arrived.get(owner) ?? [];
      const earlier = yielding.get(owner) ?? [];
      yielding.delete(owner);
      if (waiting.keys().every((other) => other === owner)) return [owner, [...earlier, ...requests]];
      const { calls = [], others = [] } = Object.groupBy(requests, ({ req }) => (isCall(req) ? 'calls' : 'others'));
      earlier.push(...others);
      if (earlier.length > 0 && time >= (nextOtherAt.get(owner) ?? time)) {
        calls.push(...earlier.splice(0, 1));
        nextOtherAt.set(owner, time + yieldMs);
      }
      if (earlier.length > 0) yielding.set(owner, earlier);
      return [owner, calls];
    });
  };

  const byOwner = (responses: readonly ServerResponse[]): Map<string, ServerResponse[]> => {
    const owned = new Map<string, ServerResponse[]>();
    // Group the requests by their credentials first, so that we look up each key only once.
    for (const requests of Map.groupBy(responses, ({ req }) => credentialsOf(req)).values()) {
      const owner = requests[0] ? ownerOf(requests[0].req) : '';
      owned.set(owner, [...(owned.get(owner) ?? []), ...requests]);
    }
    return owned;
  };

  /** Starts up to `count` requests of an owner, and moves the owner to the end of the rotation. */
  const start = (owner: string, count: number): void => {
    const requests = waiting.get(owner) ?? [];
    waiting.delete(owner);
    startAll(requests.splice(0, count));
    if (requests.length > 0) waiting.set(owner, requests);
  };

  const startAll = (responses: readonly ServerResponse[]): void => {
    // The client may have disconnected while its request was waiting.
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

/** Returns true for the routes that call a vendor, and for the list of models, which takes hardly any time. */
function isCall({ url = '' }: IncomingMessage): boolean {
  return /^\/+v1\/+(?!\/|memory\/)/.test(url);
}

/**
 * Returns a string that identifies the credentials of a request. Requests with the same credentials always have the
 * same owner.
 */
function credentialsOf({ headers, socket }: IncomingMessage): string {
  return headers.authorization ?? String(headers['x-api-key'] ?? socket.remoteAddress);
}
