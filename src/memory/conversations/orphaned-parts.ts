/** Deletes stored messages that no call refers to any more; the caller holds the project (`takeProjects`). */
import type { Queries } from '../../db/database.ts';

/** Ends that one statement follows, and how far: 500 rows at most, since it holds up the event loop of the embedded database (decisions 1). */
const batchSize = 10;
const maxRunLength = 50;

/**
 * Begins at the ends of chains, `hashes`, and goes back as long as nothing else needs a part: neither a call that ends there nor a part behind
 * it. What conversations show are parts of their calls, so nothing else has to be asked. Returns how many went.
 */
export async function deleteOrphanedParts(tx: Queries, projectId: string, hashes: readonly Buffer[]): Promise<number> {
  let count = 0;
  for (let tips = hashes; tips.length > 0; ) {
    const next = new Map<string, Buffer>();
    for (let start = 0; start < tips.length; start += batchSize) {
      const deleted = await deleteRuns(tx, projectId, tips.slice(start, start + batchSize));
      count += deleted.length;
      for (const { parentHash } of deleted) if (parentHash) next.set(hashKey(parentHash), parentHash);
      for (const { hash } of deleted) next.delete(hashKey(hash));
    }
    tips = [...next.values()];
  }
  return count;
}

/** From each end that nobody needs back along its only line; where lines meet, the last of them to go lets the rest follow. */
function deleteRuns(
  tx: Queries,
  projectId: string,
  tips: readonly Buffer[],
): Promise<{ readonly hash: Buffer; readonly parentHash: Buffer | null }[]> {
  return tx.query(
    `with recursive run (hash, parent_hash, length) as (
       select part.hash, part.parent_hash, 1
         from parts part
        where part.project_id = $1::uuid and part.hash = any ($2::bytea[])
          and not exists (select 1 from parts behind where behind.project_id = $1::uuid and behind.parent_hash = part.hash)
          and not exists (select 1 from call_texts text where text.project_id = $1::uuid and text.last_hash = part.hash)
       union all
       select part.hash, part.parent_hash, run.length + 1
         from run
         join parts part on part.project_id = $1::uuid and part.hash = run.parent_hash
        where run.length < ${maxRunLength}
          and not exists (
            select 1 from parts behind
             where behind.project_id = $1::uuid and behind.parent_hash = part.hash and behind.hash <> run.hash)
          and not exists (select 1 from call_texts text where text.project_id = $1::uuid and text.last_hash = part.hash)
     )
     delete from parts
      where project_id = $1::uuid and hash in (select hash from run)
     returning hash, parent_hash as "parentHash"`,
    [projectId, tips],
  );
}

function hashKey(hash: Buffer): string {
  return hash.toString('latin1');
}
