/**
 * Predicts for the console when the next learning batch of a project will start. The actual decision is made in
 * `begin-batch.ts`.
 */
import type { Database } from '../../db/database.ts';
import type { MemorySettings } from '../records/settings-schema.ts';
import { countWaiting, maxFailingBatches } from './begin-batch.ts';
import { isFailingSql } from './replay.ts';

export type NextBatch =
  | { readonly kind: 'none' }
  | { readonly kind: 'off'; readonly messages: number }
  /** The batch has to wait, because another one is still running or because too many batches are failing. */
  | { readonly kind: 'after_running'; readonly messages: number }
  /**
   * The batch starts as soon as `batchOf` messages are waiting, and after `waitMs` at the latest. It can start now if
   * `waitMs` is 0.
   */
  | { readonly kind: 'due'; readonly messages: number; readonly batchOf: number; readonly waitMs: number };

export async function readNextBatch(database: Database, projectId: string, settings: MemorySettings): Promise<NextBatch> {
  const { messages, oldestMs } = await countWaiting(database, projectId);
  if (messages === 0) return { kind: 'none' };
  if (!settings.enabled) return { kind: 'off', messages };
  const running = await database.query<{ failing: boolean }>(
    `select ${isFailingSql} as failing from memory_batches batch where project_id = $1::uuid and kind = 'normal' and state = 'running'`,
    [projectId],
  );
  if (running.length >= maxFailingBatches || running.some(({ failing }) => !failing)) return { kind: 'after_running', messages };
  const { batch_of: batchOf, at_least_every_minutes: minutes } = settings;
  return { kind: 'due', messages, batchOf, waitMs: messages >= batchOf ? 0 : Math.max(0, minutes * 60_000 - oldestMs) };
}
