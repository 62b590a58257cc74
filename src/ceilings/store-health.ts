/**
 * Whether the quota store, that is the database, responds. When it stops responding, calls that wait for quota wait two seconds; while it is
 * known to be down, calls do not wait at all. A probe in the background detects the recovery.
 */
import type { Database } from '../db/database.ts';
import type { Logger } from '../observability/logger.ts';

export interface StoreHealth {
  readonly isDown: boolean;
  /**
   * Settles as `work` does. The first time `work` takes too long, and when it fails, marks the store as down and calls `onDown`.
   */
  watch<Result>(work: Promise<Result>, onDown: () => void): Promise<Result>;
  stop(): void;
}

export interface StoreHealthOptions {
  readonly database: Database;
  readonly logger: Logger;
  /** The timeout is counted in ticks of this length: a process too busy to receive the response must not mistake that for an outage. */
  readonly tickMs?: number;
  readonly ticks?: number;
  readonly probeMs?: number;
}

export function createStoreHealth({ database, logger, tickMs = 100, ticks = 20, probeMs = 250 }: StoreHealthOptions): StoreHealth {
  let isDown = false;
  let isStopped = false;
  let timer: NodeJS.Timeout | undefined;

  const goDown = (err: unknown): void => {
    if (isDown) return;
    isDown = true;
    logger.error({ err }, 'quota store unavailable');
    probeLater();
  };

  const goUp = (): void => {
    if (!isDown) return;
    isDown = false;
    clearTimeout(timer);
    logger.info({}, 'quota store recovered');
  };

  const probeLater = (): void => {
    if (isStopped) return;
    timer = setTimeout(() => {
      database.query('select id from limit_counters limit 1').then(goUp, probeLater);
    }, probeMs);
    timer.unref();
  };

  const afterTicks = (onTimeout: () => void): (() => void) => {
    let remaining = ticks;
    let timeout: NodeJS.Timeout;
    const tick = (): void => {
      remaining -= 1;
      if (remaining === 0) onTimeout();
      else timeout = setTimeout(tick, tickMs);
    };
    timeout = setTimeout(tick, tickMs);
    return () => clearTimeout(timeout);
  };

  return {
    get isDown() {
      return isDown;
    },
    async watch(work, onDown) {
      const fail = (error: unknown): void => {
        goDown(error);
        onDown();
      };
      // The embedded database runs in this process: it can be busy, but not unreachable.
      const cancelTimeout = database.kind === 'embedded' ? () => undefined : afterTicks(() => fail('no response in time'));
      try {
        const result = await work;
        goUp();
        return result;
      } catch (error) {
        fail(error);
        throw error;
      } finally {
        cancelTimeout();
      }
    },
    stop() {
      isStopped = true;
      clearTimeout(timer);
    },
  };
}
