/**
 * Whether the quota store, that is the database, responds. When it stops responding, calls that wait for quota wait two seconds; while it is
 * known to be down, calls do not wait at all. A probe in the background detects the recovery.
 */
import { createBackgroundLoop } from '../core/background-loop.ts';
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

  const probe = createBackgroundLoop({
    async run() {
      if (isDown) await database.query('select id from limit_counters limit 1');
      goUp();
      return 'idle';
    },
    intervalMs: null,
    backoff: { initialMs: probeMs, maxMs: probeMs },
  });

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
    get isDown(): boolean {
      return isDown;
    },
    /** Settles as `work` does. The first time `work` takes too long, and when it fails, marks the store as down and calls `onDown`. */
    async watch<Result>(work: Promise<Result>, onDown: () => void): Promise<Result> {
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
    stop: probe.stop,
  };
}
