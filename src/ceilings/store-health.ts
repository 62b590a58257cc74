/**
 * Tracks whether the quota store, i.e. the database, responds. When it stops responding, calls that need quota wait for
 * two seconds. Once we know that it's down, calls don't wait at all. A background probe detects when it's up again.
 *
 * A statement that fails or takes too long says nothing about the statements of other counters, because it may just
 * wait for a locked row. So we only consider the store down if the connection failed, or if it doesn't respond to a
 * probe that needs no lock either.
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
   * We count the timeout in ticks of this length, so that a process that's too busy to receive the response doesn't
   * mistake this for an outage.
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

  /** Takes callbacks by number of ticks, and calls each one when that many ticks have passed. */
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
   * Sends a probe after half of the time, and calls `onTimeout` after the last tick. `hasResponded` tells whether the
   * store responded to the probe.
   */
  const watchTime = (onTimeout: (hasResponded: boolean) => void): (() => void) => {
    let hasResponded = false;
    const ask = (): void => {
      askStore().then(
        () => {
          hasResponded = true;
        },
        () => undefined, // The timeout handles this.
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
     * Settles like `work`. Calls `onStalled` if `work` takes too long or fails. If the store doesn't respond at all, we
     * also mark it as down.
     */
    async watch<Result>(work: Promise<Result>, onStalled: () => void): Promise<Result> {
      const onTimeout = (hasResponded: boolean): void => {
        if (hasResponded) logger.warn({}, 'quota statement stalled');
        else goDown('no response in time');
        onStalled();
      };
      // The embedded database runs in this process, so it may be busy but not unreachable.
      const cancelTimeout = database.kind === 'embedded' ? () => undefined : watchTime(onTimeout);
      try {
        const result = await work;
        goUp();
        return result;
      } catch (error) {
        if (isConnectionError(error)) goDown(error);
        else logger.warn({ err: error }, 'quota statement failed');
        onStalled();
        throw error;
      } finally {
        cancelTimeout();
      }
    },
    stop: probe.stop,
  };
}
