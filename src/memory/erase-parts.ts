/**
 * Deletes the stored prompts and answers of a subject's calls, and the parts of chains that no other call needs (decisions 9): from the
 * ends of chains backwards, as far as nobody refers to a part or to one behind it. Whoever calls holds the project's lock alone.
 */
import type { Queries } from '../db/database.ts';

/** Rows of a statement; on the embedded database it holds up the event loop (decisions 1). */
const sliceRows = 500;
/** Ends that one statement follows, and how far. */
const endsAtATime = 10;
const longestRun = 50;

/** Returns how many parts went. */
export async function eraseTexts(tx: Queries, projectId: string, subject: string): Promise<number> {
  const ends = new Map<string, Buffer>();
  for (;;) {
    const rows = await tx.query<{ lastHash: Buffer | null }>(
      `delete from call_texts
        where call_id in (select call_id from call_texts where project_id = $1::uuid and subject = $2::text limit ${sliceRows})
       returning last_hash as "lastHash"`,
      [projectId, subject],
    );
    if (rows.length === 0) break;
    for (const { lastHash } of rows) if (lastHash) ends.set(nameOf(lastHash), lastHash);
  }
  return eraseChains(tx, projectId, [...ends.values()]);
}

async function eraseChains(tx: Queries, projectId: string, ends: readonly Buffer[]): Promise<number> {
  let count = 0;
  let waiting = ends;
  while (waiting.length > 0) {
    const next = new Map<string, Buffer>();
    for (const slice of cut(waiting)) {
      const gone = await eraseRuns(tx, projectId, slice);
      count += gone.length;
      const names = new Set(gone.map(({ hash }) => nameOf(hash)));
      for (const { parentHash } of gone) if (parentHash && !names.has(nameOf(parentHash))) next.set(nameOf(parentHash), parentHash);
    }
    waiting = [...next.values()];
  }
  return count;
}

/** From each end that nobody needs back along its only line; where lines meet, the last of them to go lets the rest follow. */
function eraseRuns(
  tx: Queries,
  projectId: string,
  ends: readonly Buffer[],
): Promise<{ readonly hash: Buffer; readonly parentHash: Buffer | null }[]> {
  return tx.query(
    `with recursive run (hash, parent_hash, length) as (
       select part.hash, part.parent_hash, 1
         from parts part
        where part.project_id = $1::uuid and part.hash = any ($2::bytea[])
          and not exists (select 1 from parts child where child.project_id = $1::uuid and child.parent_hash = part.hash)
          and not exists (select 1 from call_texts text where text.project_id = $1::uuid and text.last_hash = part.hash)
       union all
       select part.hash, part.parent_hash, run.length + 1
         from run
         join parts part on part.project_id = $1::uuid and part.hash = run.parent_hash
        where run.length < ${longestRun}
          and not exists (
            select 1 from parts child
             where child.project_id = $1::uuid and child.parent_hash = part.hash and child.hash <> run.hash)
          and not exists (select 1 from call_texts text where text.project_id = $1::uuid and text.last_hash = part.hash)
     )
     delete from parts
      where project_id = $1::uuid and hash in (select hash from run)
     returning hash, parent_hash as "parentHash"`,
    [projectId, ends],
  );
}

function nameOf(hash: Buffer): string {
  return hash.toString('latin1');
}

function cut(ends: readonly Buffer[]): Buffer[][] {
  return Array.from({ length: Math.ceil(ends.length / endsAtATime) }, (_value, at) => ends.slice(at * endsAtATime, (at + 1) * endsAtATime));
}
