/**
 * Tracks whether the PostgreSQL server responds, and keeps an outage from flooding the log.
 *
 * Everything that uses a connection reports whether the server responded. An outage begins with the first connection
 * error. It ends once the server has responded and there hasn't been another connection error for `quietMs`, so that a
 * lock which only blocks some statements counts as a single outage. We log one line when it begins and one when it
 * ends. Lines that other modules write about the same errors are only counted, because most of them are written for
 * every call.
 */
import { errorMessage, errorSummary } from '../core/error-messages.ts';
import { isObject } from '../core/json/narrow.ts';
import type { Logger } from '../observability/logger.ts';

/** The part of an outage that other modules use. */
export interface DatabaseOutage {
  /** True from a connection error until the server responds again. */
  readonly isDown: boolean;
  /** Call this with connection errors that the database module hasn't thrown itself, for instance a caller's timeout. */
  failed(error: unknown): void;
  /** Returns a logger that counts warnings and errors about connection errors of the database, and writes them at level debug. */
  quieten(logger: Logger): Logger;
}

export interface OutageMonitor extends DatabaseOutage {
  responded(): void;
  /** A connection ended while no statement used it. */
  connectionLost(error: unknown): void;
}

const defaultQuietMs = 5_000;
/** How long we wait to see whether a lost connection is part of an outage. */
const lostConnectionMs = 1_000;
/** Limits the recursion, because an error may be among its own causes. */
const maxCauses = 8;

export function createOutageMonitor(logger: Logger | undefined, quietMs = defaultQuietMs): OutageMonitor {
  const reported = new WeakSet();
  let isDown = false;
  /** Until the first response, the schema check logs why the database can't be reached. */
  let hasResponded = false;
  /** Both times come from `performance.now()`. */
  let startedAt: number | null = null;
  let respondedAt = 0;
  let suppressed = new Map<string, number>();
  let endTimer: NodeJS.Timeout | undefined;
  let lostConnections = 0;

  const logEnd = (): void => {
    if (startedAt !== null) {
      const seconds = Math.round((respondedAt - startedAt) / 100) / 10;
      const count = suppressed.values().reduce((sum, lines) => sum + lines, 0);
      logger?.info({ seconds, count, suppressed: Object.fromEntries(suppressed) }, 'database recovered');
    }
    startedAt = null;
    suppressed = new Map();
  };

  const isReported = (error: unknown, depth = 0): boolean => {
    if (!isObject(error) || depth > maxCauses) return false;
    if (reported.has(error) || isReported(error.cause, depth + 1)) return true;
    const { errors } = error;
    return Array.isArray(errors) && errors.length > 0 && errors.every((each) => isReported(each, depth + 1));
  };

  const counting =
    (write: Logger['warn'], { debug }: Logger): Logger['warn'] =>
    (fields, message) => {
      if (!isReported(fields.err)) return write(fields, message);
      suppressed.set(message, (suppressed.get(message) ?? 0) + 1);
      debug(fields, message);
    };

  return {
    get isDown() {
      return isDown;
    },
    failed(error) {
      let root = error;
      for (let cause = error, depth = 0; isObject(cause) && depth < maxCauses; cause = cause.cause, depth += 1) {
        reported.add(cause);
        root = cause;
      }
      isDown = true;
      clearTimeout(endTimer);
      if (startedAt !== null || !hasResponded) return;
      startedAt = performance.now();
      logger?.error({ reason: errorSummary(root) }, 'database unavailable; retrying');
    },
    responded() {
      hasResponded = true;
      if (!isDown) return;
      isDown = false;
      respondedAt = performance.now();
      endTimer = setTimeout(logEnd, quietMs).unref();
    },
    connectionLost(error) {
      lostConnections += 1;
      if (lostConnections > 1) return;
      const logUnlessDown = (): void => {
        if (startedAt === null) logger?.warn({ err: errorMessage(error), count: lostConnections }, 'database connection lost');
        lostConnections = 0;
      };
      setTimeout(logUnlessDown, lostConnectionMs).unref();
    },
    quieten: (other) => ({
      debug: other.debug,
      info: other.info,
      warn: counting(other.warn, other),
      error: counting(other.error, other),
    }),
  };
}
