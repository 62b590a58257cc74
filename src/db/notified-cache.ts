/**
 * A row cache that is invalidated in all processes by NOTIFY. The payload on `channel` is the key of the row that
 * changed.
 */

import type { Clock } from '../core/time.ts';
import type { Logger } from '../observability/logger.ts';
import type { Database } from './database.ts';
import { createRowCache, type RowCache } from './row-cache.ts';

export interface NotifiedCache<Row> extends Pick<RowCache<Row>, 'get' | 'warm' | 'countRows'> {
  /**
   * Call this after you've changed a row. The notification also reaches this process, but possibly after the row is
   * used again.
   */
  invalidate(key: string): void;
  start(): Promise<void>;
  stop(): Promise<void>;
}

export interface NotifiedCacheOptions<Row> {
  readonly database: Database;
  readonly channel: string;
  readonly load: (key: string) => Promise<Row | null>;
  readonly clock: Clock;
  readonly logger?: Pick<Logger, 'warn'> | undefined;
  /** Called with the key of each notification, after the row was invalidated. */
  readonly onChange?: ((key: string) => void) | undefined;
}

export function createNotifiedCache<Row>(options: NotifiedCacheOptions<Row>): NotifiedCache<Row> {
  const { database, channel, load, clock, logger, onChange } = options;
  const cache = createRowCache<Row>({
    clock,
    load,
    onLoadError: (err) => logger?.warn({ err, channel }, 'cached row reload failed; serving the last known row'),
  });
  let subscription: { stop(): Promise<void> } | null = null;

  const onPayload = (key: string): void => {
    cache.invalidate(key);
    onChange?.(key);
  };

  return {
    get: cache.get,
    warm: cache.warm,
    countRows: cache.countRows,
    invalidate: cache.invalidate,
    async start() {
      subscription ??= await database.listen(channel, onPayload, cache.invalidateAll);
    },
    async stop() {
      await subscription?.stop();
      subscription = null;
    },
  };
}
