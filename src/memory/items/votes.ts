/**
 * Votes on memories, which slightly change their rank. A key has one vote per memory, and a new vote replaces the
 * earlier one, so voting often doesn't increase its influence. The rating counts in `memory_items` are separate. Only a
 * vote that names a call changes both (`rate-recalled.ts`).
 */
import type { Queries } from '../../db/database.ts';
import type { Rating } from './item-schemas.ts';

export interface Vote {
  readonly itemId: string;
  readonly rating: Rating;
}

export interface Ballot {
  readonly projectId: string;
  /** The author of the vote, as `key:<id>`. After a key is rotated, its votes still use the id of the first key. */
  readonly voter: string;
  /** The end user of the call. If it's null, the vote counts for everybody who can see the memory. */
  readonly subject: string | null;
  readonly callId: string | null;
  readonly votes: readonly Vote[];
}

export async function saveVotes(tx: Queries, { projectId, voter, subject, callId, votes }: Ballot): Promise<void> {
  await tx.query(
    `insert into memory_votes (project_id, item_id, voter, subject, useful, call_id, voted_at)
     select $1::uuid, item_id, $2::text, $3::text, useful, $4::uuid, clock_timestamp()
       from unnest($5::uuid[], $6::boolean[]) as new (item_id, useful)
     on conflict (item_id, voter) do update
       set subject = excluded.subject, useful = excluded.useful, call_id = excluded.call_id, voted_at = excluded.voted_at`,
    [projectId, voter, subject, callId, votes.map(({ itemId }) => itemId), votes.map(({ rating }) => rating === 'useful')],
  );
}

export async function overruleVotes(tx: Queries, itemId: string): Promise<void> {
  await tx.query('delete from memory_votes where item_id = $1::uuid and not useful', [itemId]);
}

/** Copies the `useful` votes on merged memories to the memory that replaces them. */
export async function inheritVotes(tx: Queries, itemId: string, mergedIds: readonly string[]): Promise<void> {
  await tx.query(
    `insert into memory_votes (project_id, item_id, voter, subject, useful, call_id, voted_at)
     select project_id, $1::uuid, voter, subject, useful, call_id, voted_at
       from memory_votes where item_id = any($2::uuid[]) and useful
     on conflict do nothing`,
    [itemId, mergedIds],
  );
}

export interface StoredVote {
  readonly useful: boolean;
  readonly subject: string | null;
  readonly callId: string | null;
  readonly votedAt: Date;
}

export function listVotes(queries: Queries, itemId: string, limit: number): Promise<StoredVote[]> {
  return queries.query<StoredVote>(
    `select useful, subject, call_id as "callId", voted_at as "votedAt"
       from memory_votes where item_id = $1::uuid order by voted_at desc, voter limit $2::integer`,
    [itemId, limit],
  );
}
