/** One at a time changes which memories of a project are live. */
import type { Queries } from '../db/database.ts';

/**
 * Nobody else learns, consolidates, corrects or removes memories of the project until the transaction ends. Whoever does must see what the one
 * before has stored and closed: two batches may have learned the same, and a fact ends with the last memory that tells it. Asked for after the
 * project's own lock and before any row, so that nobody waits in a circle.
 */
export async function takeMemories(tx: Queries, projectId: string): Promise<void> {
  await tx.query(`select pg_advisory_xact_lock(hashtextextended('learned ' || $1::text, 0))`, [projectId]);
}
