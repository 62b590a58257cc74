/**
 * Exports and imports votes on memories.
 *
 * The export of a subject contains the votes on its memories, as well as the votes that its calls cast on memories of
 * the whole project. The latter can only be imported into a project that has these memories.
 */
import type { Queries } from '../../db/database.ts';
import { timeSql, type VoteRecord } from './format.ts';
import { type ImportBatch, mapIds } from './import-batch.ts';
import type { Lined } from './import-items.ts';

interface VoteRow extends Omit<VoteRecord, 'type'> {
  readonly type: 'vote';
}

export interface VotePage {
  readonly projectId: string;
  /** Null for the votes of all subjects. */
  readonly subject: string | null;
  readonly after: Pick<VoteRow, 'item' | 'voter'>;
  readonly limit: number;
}

export function readVotes(queries: Queries, exportedAt: string, { projectId, subject, after, limit }: VotePage): Promise<VoteRow[]> {
  return queries.query<VoteRow>(
    `select 'vote' as type, vote.item_id as item, vote.voter, vote.subject, case when vote.useful then 'useful' else 'wrong' end as rating,
            ${timeSql('vote.voted_at')} as voted_at
       from memory_votes vote
       join memory_items item on item.id = vote.item_id
      where vote.project_id = $1::uuid and ($2::text is null or vote.subject = $2::text or item.subject = $2::text)
        and (item.created_at <= $3::timestamptz or item.created_at > statement_timestamp())
        and (vote.item_id, vote.voter) > ($4::uuid, $5::text)
      order by vote.item_id, vote.voter limit $6::integer`,
    [projectId, subject, exportedAt, after.item, after.voter, limit],
  );
}

/** Imports votes. A vote that the project already has stays as it is. */
export async function importVotes(batch: ImportBatch, records: readonly Lined<VoteRecord>[]): Promise<void> {
  const { tx, projectId, tally, writes } = batch;
  const ids = await mapIds(
    batch,
    'memory_items',
    records.map(({ item }) => item),
  );
  const rows = records.flatMap(({ line, item, voter, subject, rating, voted_at }) => {
    const itemId = ids.find(item);
    // A dry run doesn't insert memories, so a vote may refer to a memory that doesn't exist yet.
    const refusal =
      batch.refusalOf(subject, voted_at) ?? (itemId === null && writes ? 'its memory is missing, e.g. because it was erased' : null);
    if (refusal !== null) tally.refuse('vote', line, refusal);
    return refusal === null ? [{ item_id: itemId, voter, subject, useful: rating === 'useful', voted_at }] : [];
  });
  const statement = writes
    ? `insert into memory_votes (project_id, item_id, voter, subject, useful, voted_at)
       select $1::uuid, item_id, voter, subject, useful, voted_at from new on conflict do nothing returning 1`
    : `select 1 from new
        where not exists (select from memory_votes vote where vote.project_id = $1::uuid and vote.item_id = new.item_id and vote.voter = new.voter)`;
  const added = await tx.query(
    `with new as (select * from jsonb_to_recordset($2::jsonb)
                    as new (item_id uuid, voter text, subject text, useful boolean, voted_at timestamptz))
     ${statement}`,
    [projectId, JSON.stringify(rows)],
  );
  tally.count('vote', 'added', added.length);
  tally.count('vote', 'present', rows.length - added.length);
}
