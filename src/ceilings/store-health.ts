/**
 * Whether the store of the ceilings answers. Calls that wait for a lease when it falls silent wait two seconds, those that come while it is
 * known to be down not at all: a probe in the background finds out when it is back.
 */
import type { Database } from '../db/database.ts';
import type { Logger } from '../observability/logger.ts';

export interface StoreHealth {
  readonly isDown: boolean;
  /** Waits for `work`; when that takes too long, or fails, the store counts as down and `onDown` is called. Rejects with what `work` rejects with. */
  watch<Result>(work: Promise<Result>, onDown: () => void): Promise<Result>;
  stop(): void;
}

export interface StoreHealthOptions {
  readonly database: Database;
  readonly logger: Logger;
  /** Silence is counted in ticks of this length: a process that is too busy to hear the answer must not take that for silence. */
  readonly tickMs?: number;
  readonly ticks?: number;
  readonly probeMs?: number;
}

export function createStoreHealth({ database, logger, tickMs = 100, ticks = 20, probeMs = 250 }: StoreHealthOptions): StoreHealth {
  let isDown = false;
  let isStopped = false;
  let timer: NodeJS.Timeout | undefined;

  const goDown = (error: unknown): void => {
    if (isDown) return;
    isDown = true;
    logger.error({ error }, 'the store of the ceilings does not answer');
    probeLater();
  };

  const goUp = (): void => {
    if (!isDown) return;
    isDown = false;
    clearTimeout(timer);
    logger.info({}, 'the store of the ceilings answers again');
  };

  const probeLater = (): void => {
    if (isStopped) return;
    timer = setTimeout(() => {
      database.query('select id from limit_counters limit 1').then(goUp, probeLater);
    }, probeMs);
    timer.unref();
  };

  const afterTicks = (onSilence: () => void): (() => void) => {
    let left = ticks;
    let tick: NodeJS.Timeout;
    const next = (): void => {
      left -= 1;
      if (left === 0) onSilence();
      else tick = setTimeout(next, tickMs);
    };
    tick = setTimeout(next, tickMs);
    return () => clearTimeout(tick);
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
      // The embedded database is this process: it is never silent, only busy.
      const stopTicking = database.kind === 'embedded' ? () => undefined : afterTicks(() => fail('no answer in time'));
      try {
        const result = await work;
        goUp();
        return result;
      } catch (error) {
        fail(error);
        throw error;
      } finally {
        stopTicking();
      }
    },
    stop() {
      isStopped = true;
      clearTimeout(timer);
    },
  };
}
