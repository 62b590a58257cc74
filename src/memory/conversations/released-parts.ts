/**
 * Deletes stored parts that no call refers to any more. Whenever a prompt is deleted, a trigger on `call_texts` records
 * where its chains ended.
 *
 * The caller must hold the project's conversations lock. Everything that stores parts holds it too, so while we delete
 * a part, nothing else can start to refer to it.
 */
import type { Queries } from '../../db/database.ts';
import { batchSize } from '../../db/row-batches.ts';
import type { Sha256 } from './chain.ts';

/**
 * Limits the size of a statement, both in chains and in parts per chain. PGlite blocks the event loop, so a statement
 * should delete at most 500 rows.
 */
const endsPerStatement = 10;
const maxRunLength = 50;

/** Deletes unused parts of prompts and returns how many of them were messages. */
export async function deleteReleasedParts(tx: Queries, projectId: string): Promise<number> {
  let messages = 0;
  for (;;) {
    const released = await tx.query<{ hash: Sha256 }>(
      `delete from released_parts where ctid = any (array(select ctid from released_parts where project_id = $1::uuid limit ${batchSize}))
       returning encode(hash, 'hex') as hash`,
      [projectId],
    );
    if (released.length === 0) return messages;
    messages += await deleteChains(tx, projectId, await selectUnused(tx, projectId, [...new Set(released.map(({ hash }) => hash))]));
  }
}

/**
 * Walks back from the ends of chains and deletes parts. It stops at a part that is still needed, because a call ends
 * there or another part follows it. There can't be any other references, because conversations only show parts of their
 * calls.
 */
async function deleteChains(tx: Queries, projectId: string, hashes: readonly Sha256[]): Promise<number> {
  let messages = 0;
  for (let ends = hashes; ends.length > 0; ) {
    const next = new Set<Sha256>();
    const textHashes = new Set<Sha256>();
    for (let start = 0; start < ends.length; start += endsPerStatement) {
      const deleted = await deleteRuns(tx, projectId, ends.slice(start, start + endsPerStatement));
      for (const { parentHash, textHash, isMessage } of deleted) {
        if (parentHash) next.add(parentHash);
        if (textHash) textHashes.add(textHash);
        if (isMessage) messages += 1;
      }
      for (const { hash } of deleted) next.delete(hash);
    }
    await deleteTexts(tx, projectId, [...textHashes]);
    ends = [...next];
  }
  return messages;
}

interface DeletedPart {
  readonly hash: Sha256;
  readonly parentHash: Sha256 | null;
  readonly textHash: Sha256 | null;
  readonly isMessage: boolean;
}

/** SQL condition that checks whether one of a call's chains ends with the row `part`. */
const isEnd = `exists (select 1 from call_texts text where text.project_id = $1::uuid and text.last_hash = part.hash)
            or exists (select 1 from call_texts text where text.project_id = $1::uuid and text.context_hash = part.hash)
            or exists (select 1 from call_texts text where text.project_id = $1::uuid and text.extras_hash = part.hash)`;

/**
 * Selects the parts that can be deleted because no other part follows them and no call ends with them. Most prompts are
 * the beginning of a longer chain, so usually their last part has to stay.
 */
async function selectUnused(tx: Queries, projectId: string, hashes: readonly Sha256[]): Promise<Sha256[]> {
  const rows = await tx.query<{ hash: Sha256 }>(
    `select encode(hash, 'hex') as hash from parts part
      where project_id = $1::uuid and hash = any ($2::bytea[])
        and not exists (select 1 from parts next where next.project_id = $1::uuid and next.parent_hash = part.hash)
        and not (${isEnd})`,
    [projectId, hashes.map((hash) => `\\x${hash}`)],
  );
  return rows.map(({ hash }) => hash);
}

/**
 * Starts at the ends of unused chains and deletes parts backwards until it reaches a part that another chain needs. If
 * several chains share a beginning, the beginning is deleted together with the last of them.
 */
function deleteRuns(tx: Queries, projectId: string, ends: readonly Sha256[]): Promise<DeletedPart[]> {
  return tx.query(
    `with recursive run (hash, parent_hash, length) as (
       select part.hash, part.parent_hash, 1
         from parts part
        where part.project_id = $1::uuid and part.hash = any ($2::bytea[])
          and not exists (select 1 from parts next where next.project_id = $1::uuid and next.parent_hash = part.hash)
          and not (${isEnd})
       union all
       select part.hash, part.parent_hash, run.length + 1
         from run
         join parts part on part.project_id = $1::uuid and part.hash = run.parent_hash
        where run.length < ${maxRunLength}
          and not exists (
            select 1 from parts next
             where next.project_id = $1::uuid and next.parent_hash = part.hash and next.hash <> run.hash)
          and not (${isEnd})
     )
     delete from parts
      where project_id = $1::uuid and hash in (select hash from run)
     returning encode(hash, 'hex') as hash, encode(parent_hash, 'hex') as "parentHash", encode(text_hash, 'hex') as "textHash",
               role in ('user', 'assistant') as "isMessage"`,
    [projectId, ends.map((hash) => `\\x${hash}`)],
  );
}

async function deleteTexts(tx: Queries, projectId: string, hashes: readonly Sha256[]): Promise<void> {
  for (let start = 0; start < hashes.length; start += batchSize) {
    await tx.query(
      `delete from prompt_texts text
        where project_id = $1::uuid and hash = any ($2::bytea[])
          and not exists (select 1 from parts part where part.project_id = $1::uuid and part.text_hash = text.hash)`,
      [projectId, hashes.slice(start, start + batchSize).map((hash) => `\\x${hash}`)],
    );
  }
}
