/**
 * Whether the quota store, that is the database, responds. When it stops responding, calls that wait for quota wait two seconds; while it is
 * known to be down, calls do not wait at all. A probe in the background detects the recovery.
 *
 * A statement that takes too long, or fails, says nothing about the statements of other counters: a row may be locked. So the store counts as
 * down only when it does not respond to the probe either, a statement that needs no lock, or when the connection failed.
 */
import { createBackgroundLoop } from '../core/background-loop.ts';
import { isConnectionError } from '../db/connection-errors.ts';
import type { Database } from '../db/database.ts';
import type { Logger } from '../observability/logger.ts';

export type StoreHealth = ReturnType<typeof createStoreHealth>;

export interface StoreHealthOptions {
  readonly database: Database;
  readonly logger: Logger;
  /** The timeout is counted in ticks of this length: a process too busy to receive the response must not mistake that for an outage. */
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

  /** Calls each function after so many ticks. */
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

  /** Calls `onTimeout` after the last tick, with whether the store responded to the probe that was sent at half of the time. */
  const watchTime = (onTimeout: (hasResponded: boolean) => void): (() => void) => {
    let hasResponded = false;
    const ask = (): void => {
      askStore().then(
        () => {
          hasResponded = true;
        },
        () => undefined, // The timeout follows.
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
    /** Settles as `work` does. Calls `onStalled` when `work` takes too long or fails; the store counts as down when it does not respond at all. */
    async watch<Result>(work: Promise<Result>, onStalled: () => void): Promise<Result> {
      const onTimeout = (hasResponded: boolean): void => {
        if (hasResponded) logger.warn({}, 'quota statement stalled');
        else goDown('no response in time');
        onStalled();
      };
      // The embedded database runs in this process: it can be busy, but not unreachable.
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
