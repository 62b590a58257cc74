/**
 * A row cache that all processes invalidate when they receive a NOTIFY. The payload on `channel` is the key of the
 * changed row.
 */

import type { Clock } from '../core/time.ts';
import type { Logger } from '../observability/logger.ts';
import type { Database } from './database.ts';
import { createRowCache } from './row-cache.ts';

export interface NotifiedCacheOptions<Row> {
  readonly database: Database;
  readonly channel: string;
  readonly load: (key: string) => Promise<Row | null>;
  readonly clock: Clock;
  readonly logger?: Pick<Logger, 'warn'> | undefined;
  /** Called for each notification, after the cached row was invalidated. */
  readonly onChange?: ((key: string) => void) | undefined;
}

export function createNotifiedCache<Row>(options: NotifiedCacheOptions<Row>) {
  const { database, channel, load, clock, logger, onChange } = options;
  const cache = createRowCache<Row>({
    clock,
    load,
    onLoadError: (err) => logger?.warn({ err, channel }, 'failed to reload a cached row; using the last known one'),
  });
  let subscription: { stop(): Promise<void> } | null = null;

  const onPayload = (key: string): void => {
    cache.invalidate(key);
    onChange?.(key);
  };

  return {
    get: cache.get,
    peek: cache.peek,
    warm: cache.warm,
    countRows: cache.countRows,
    /**
     * Call this after changing a row. The process also receives its own notification, but until that arrives it might
     * still use the old row.
     */
    invalidate: cache.invalidate,
    async start(): Promise<void> {
      subscription ??= await database.listen(channel, onPayload, cache.invalidateAll);
    },
    async stop(): Promise<void> {
      await subscription?.stop();
      subscription = null;
    },
  };
}
