/** When the next learning batch of a project starts, for people. The decision itself is in `begin-batch.ts`. */
import type { Database } from '../../db/database.ts';
import type { MemorySettings } from '../records/settings.ts';
import { countWaiting, maxFailingBatches } from './begin-batch.ts';
import { isFailingSql } from './replay.ts';

export type NextBatch =
  /** No message waits. */
  | { readonly kind: 'none' }
  /** Memory is off: messages wait until it is turned on. */
  | { readonly kind: 'off'; readonly messages: number }
  /** Starts once the running batch has ended or, if too many batches are failing, once fewer of them are. */
  | { readonly kind: 'after_running'; readonly messages: number }
  /** Starts after `waitMs`, or as soon as `batchOf` messages wait. 0: it is due. */
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
