/** Deletes stored messages that no call refers to any more; the caller holds the project (`takeProjects`). */
import type { Queries } from '../db/database.ts';

/**
 * Begins at the ends of chains, `hashes`, and goes back as long as nothing else needs a part: neither a call that ends there nor a part behind
 * it. What conversations show are parts of their calls, so nothing else has to be asked.
 */
export async function deleteUnusedParts(tx: Queries, projectId: string, hashes: readonly Buffer[]): Promise<void> {
  let ends = hashes;
  while (ends.length > 0) {
    const deleted = await tx.query<{ parentHash: Buffer | null }>(
      `delete from parts part
        where part.project_id = $1::uuid and part.hash = any($2::bytea[])
          and not exists (select 1 from call_texts text where text.project_id = part.project_id and text.last_hash = part.hash)
          and not exists (select 1 from parts behind where behind.project_id = part.project_id and behind.parent_hash = part.hash)
       returning part.parent_hash as "parentHash"`,
      [projectId, ends],
    );
    ends = deleted.flatMap(({ parentHash }) => (parentHash === null ? [] : [parentHash]));
  }
}
