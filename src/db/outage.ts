/**
 * Tracks whether the PostgreSQL server responds, and keeps an outage from flooding the log.
 *
 * Everything that uses a connection reports to this monitor. An outage begins with the first connection error, and ends
 * once the server has responded and there hasn't been another connection error for `quietMs`. Without this delay, a
 * lock that blocks only some of the statements would be logged as many short outages. We log one line when an outage
 * begins and one when it ends. Meanwhile other modules would log the same error for every call, so we suppress their
 * log lines and only count them.
 */
import { errorMessage, errorSummary } from '../core/error-messages.ts';
import { isObject } from '../core/json/narrow.ts';
import type { Logger } from '../observability/logger.ts';

export interface DatabaseOutage {
  /** True from a connection error until the server responds again. */
  readonly isDown: boolean;
  /**
   * Reports a connection error that didn't come from the database module, e.g. because the caller's own timeout
   * expired.
   */
  failed(error: unknown): void;
  /**
   * Returns a logger that downgrades warnings and errors about a lost database connection to debug level and counts
   * them.
   */
  quieten(logger: Logger): Logger;
}

export interface OutageMonitor extends DatabaseOutage {
  responded(): void;
  /** Reports that a connection was closed while no statement was using it. */
  connectionLost(error: unknown): void;
}

const defaultQuietMs = 5_000;
/**
 * After a connection is lost, we wait this long before we log it. If it was part of an outage, the outage has been
 * logged by then.
 */
const lostConnectionMs = 1_000;
/** How many causes of an error we follow. There has to be a limit, because an error can be its own (indirect) cause. */
const maxCauses = 8;

export function createOutageMonitor(logger: Logger | undefined, quietMs = defaultQuietMs): OutageMonitor {
  const reported = new WeakSet();
  let isDown = false;
  /**
   * We don't report an outage before the server has responded for the first time, because the schema check already logs
   * why the database can't be reached.
   */
  let hasResponded = false;
  /**
   * The times when the outage began and when the server last responded. Both come from `performance.now()`, so they're
   * monotonic.
   */
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
