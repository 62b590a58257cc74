/** When the next learning batch of a project starts, for people. The decision itself is in `begin-batch.ts`. */
import type { Database } from '../../db/database.ts';
import type { MemorySettings } from '../records/settings.ts';
import { countWaiting } from './begin-batch.ts';

export type NextBatch =
  /** No message waits. */
  | { readonly kind: 'none' }
  /** Memory is off: messages wait until it is turned on. */
  | { readonly kind: 'off'; readonly messages: number }
  /** Starts when the running batch has ended. */
  | { readonly kind: 'after_running'; readonly messages: number }
  /** Starts after `waitMs`, or as soon as `batchOf` messages wait. 0: it is due. */
  | { readonly kind: 'due'; readonly messages: number; readonly batchOf: number; readonly waitMs: number };

export async function readNextBatch(database: Database, projectId: string, settings: MemorySettings): Promise<NextBatch> {
  const { messages, oldestMs } = await countWaiting(database, projectId);
  if (messages === 0) return { kind: 'none' };
  if (!settings.enabled) return { kind: 'off', messages };
  const running = await database.query(
    `select 1 from memory_batches where project_id = $1::uuid and kind = 'normal' and state = 'running' limit 1`,
    [projectId],
  );
  if (running.length > 0) return { kind: 'after_running', messages };
  const { batch_of: batchOf, at_least_every_minutes: minutes } = settings;
  return { kind: 'due', messages, batchOf, waitMs: messages >= batchOf ? 0 : Math.max(0, minutes * 60_000 - oldestMs) };
}
