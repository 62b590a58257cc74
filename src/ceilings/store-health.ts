/**
 * Tracks whether the quota store, i.e. the database, responds. When it stops responding, calls that need quota wait for
 * two seconds. Once we know that it's down, they don't wait any more, and a background probe checks when it's up again.
 *
 * If a statement fails or takes too long, it may just be waiting for a locked row, so statements for other counters can
 * still work. We only consider the store down if the connection failed, or if the store doesn't respond to a probe that
 * needs no lock.
 */
import { createBackgroundLoop } from '../core/background-loop.ts';
import { isConnectionError } from '../db/connection-errors.ts';
import type { Database } from '../db/database.ts';
import type { Logger } from '../observability/logger.ts';

export type StoreHealth = ReturnType<typeof createStoreHealth>;

export interface StoreHealthOptions {
  readonly database: Database;
  readonly logger: Logger;
  /**
   * The length of a tick. We count ticks instead of comparing times to detect slow statements. If the process is too
   * busy to handle a response, its ticks are late as well, so we don't mistake that for an outage.
   */
  readonly tickMs?: number;
  readonly ticks?: number;
  readonly probeMs?: number;
}

export function createStoreHealth({ database, logger, tickMs = 100, ticks = 20, probeMs = 250 }: StoreHealthOptions) {
  let isDown = false;

  const goDown = (err: unknown): void => {
    if (isDown) return;
    isDown = true;
    logger.error({ err }, 'quota store unavailable');
    probe.wake(probeMs);
  };

  const goUp = (): void => {
    if (!isDown) return;
    isDown = false;
    logger.info({}, 'quota store recovered');
  };

  const askStore = (): Promise<unknown> => database.query('select id from limit_counters limit 1');

  const probe = createBackgroundLoop({
    async run() {
      if (isDown) await askStore();
      goUp();
      return 'idle';
    },
    intervalMs: null,
    backoff: { initialMs: probeMs, maxMs: probeMs },
  });

  /** Calls each callback after its number of ticks. Returns a function that cancels this. */
  const atTicks = (steps: ReadonlyMap<number, () => void>): (() => void) => {
    let elapsed = 0;
    let timeout: NodeJS.Timeout;
    const tick = (): void => {
      elapsed += 1;
      steps.get(elapsed)?.();
      if (elapsed < ticks) timeout = setTimeout(tick, tickMs);
    };
    timeout = setTimeout(tick, tickMs);
    return () => clearTimeout(timeout);
  };

  /**
   * Sends a probe to the store when half of the timeout has passed, and calls `onTimeout` at the end of the timeout.
   * `hasResponded` says whether the store has responded to the probe.
   */
  const watchTime = (onTimeout: (hasResponded: boolean) => void): (() => void) => {
    let hasResponded = false;
    const ask = (): void => {
      askStore().then(
        () => {
          hasResponded = true;
        },
        () => undefined, // If the probe fails, we leave it to the timeout.
      );
    };
    return atTicks(
      new Map([
        [Math.ceil(ticks / 2), ask],
        [ticks, () => onTimeout(hasResponded)],
      ]),
    );
  };

  return {
    get isDown(): boolean {
      return isDown;
    },
    /**
     * Waits for a statement, and calls `onStalled` if it fails or takes too long. If the probe gets no response either,
     * the store is down.
     */
    async watch<Result>(work: Promise<Result>, onStalled: () => void): Promise<Result> {
      const onTimeout = (hasResponded: boolean): void => {
        if (hasResponded) logger.warn({}, 'quota query timed out');
        else goDown('timed out');
        onStalled();
      };
      // The embedded database needs no timeout. It runs in this process, so it may be busy but is never unreachable.
      const cancelTimeout = database.kind === 'embedded' ? () => undefined : watchTime(onTimeout);
      try {
        const result = await work;
        goUp();
        return result;
      } catch (error) {
        if (isConnectionError(error)) goDown(error);
        else logger.warn({ err: error }, 'quota query failed');
        onStalled();
        throw error;
      } finally {
        cancelTimeout();
      }
    },
    stop: probe.stop,
  };
}
