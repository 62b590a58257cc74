/** Deletes stored messages that no call refers to; the caller holds the conversations lock of the project. */
import type { Queries } from '../../db/database.ts';
import type { Sha256 } from './chain.ts';

/** Tips per statement and parts per tip: at most 500 rows, because PGlite runs statements on the event loop. */
const batchSize = 10;
const maxRunLength = 50;

/**
 * Walks back from the chain tips `hashes` and deletes parts until one is still needed, by a call that ends there or by a following part.
 * Conversations only show parts of their calls, so no other reference exists. Returns the number of deleted parts.
 */
export async function deleteOrphanedParts(tx: Queries, projectId: string, hashes: readonly Sha256[]): Promise<number> {
  let count = 0;
  for (let tips = hashes; tips.length > 0; ) {
    const next = new Set<Sha256>();
    for (let start = 0; start < tips.length; start += batchSize) {
      const deleted = await deleteRuns(tx, projectId, tips.slice(start, start + batchSize));
      count += deleted.length;
      for (const { parentHash } of deleted) if (parentHash) next.add(parentHash);
      for (const { hash } of deleted) next.delete(hash);
    }
    tips = [...next];
  }
  return count;
}

/** Deletes the unshared run before each tip; where chains meet, deleting the last of them continues past the fork. */
function deleteRuns(
  tx: Queries,
  projectId: string,
  tips: readonly Sha256[],
): Promise<{ readonly hash: Sha256; readonly parentHash: Sha256 | null }[]> {
  return tx.query(
    `with recursive run (hash, parent_hash, length) as (
       select part.hash, part.parent_hash, 1
         from parts part
        where part.project_id = $1::uuid and part.hash = any ($2::bytea[])
          and not exists (select 1 from parts next where next.project_id = $1::uuid and next.parent_hash = part.hash)
          and not exists (select 1 from call_texts text where text.project_id = $1::uuid and text.last_hash = part.hash)
       union all
       select part.hash, part.parent_hash, run.length + 1
         from run
         join parts part on part.project_id = $1::uuid and part.hash = run.parent_hash
        where run.length < ${maxRunLength}
          and not exists (
            select 1 from parts next
             where next.project_id = $1::uuid and next.parent_hash = part.hash and next.hash <> run.hash)
          and not exists (select 1 from call_texts text where text.project_id = $1::uuid and text.last_hash = part.hash)
     )
     delete from parts
      where project_id = $1::uuid and hash in (select hash from run)
     returning encode(hash, 'hex') as hash, encode(parent_hash, 'hex') as "parentHash"`,
    [projectId, tips.map((hash) => `\\x${hash}`)],
  );
}
