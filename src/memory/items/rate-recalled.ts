/**
 * Rates memories that recall put into the prompt of a call. A key can only rate calls of its own project, and only
 * memories that the call recalled. In all other cases we throw the same `not_found`, so that a key can't find out about
 * other calls and memories.
 *
 * Applications may report the same verdict after every call, so each key only counts once per memory. If it has voted
 * before, we subtract the earlier vote first.
 */
import { gatewayError } from '../../core/errors.ts';
import type { Clock } from '../../core/time.ts';
import type { Database, Queries } from '../../db/database.ts';
import { lockMemories, lockProject } from '../../db/locks.ts';
import { databaseOf } from '../../db/query-slots.ts';
import { type Item, itemColumns, wrongAfter } from '../records/item-record.ts';
import { invalidatePage } from './invalidate-page.ts';
import type { Rating } from './item-schemas.ts';
import { saveVotes, type Vote } from './votes.ts';

export interface RecalledRating {
  readonly projectId: string;
  readonly callId: string;
  readonly voter: string;
  readonly id: string;
  readonly rating: Rating;
  /**
   * Ratings of other memories that were recalled for the same call. We skip memories that have been closed in the
   * meantime. If a memory is listed more than once, its last rating counts. The memory `id` always gets `rating`, even
   * if it's listed here too.
   */
  readonly others: readonly Vote[];
}

/** Records the ratings. Returns the memory `id`, or throws `not_found`. */
export function createRateRecalled({ database, clock }: { readonly database: Database; readonly clock: Clock }) {
  return ({ projectId, callId, voter, id, rating, others }: RecalledRating): Promise<Item> =>
    databaseOf(database, projectId).transaction(async (tx) => {
      await lockProject(tx, projectId, 'shared');
      await lockMemories(tx, projectId);
      const verdicts = new Map([...others.map((vote) => [vote.itemId, vote.rating] as const), [id, rating] as const]);
      const [call] = await tx.query<{ subject: string | null; recalled: readonly string[] }>(
        `select subject, recalled_items::text[] as recalled from call_texts where call_id = $1::uuid and project_id = $2::uuid`,
        [callId, projectId],
      );
      if (!call || [...verdicts.keys()].some((itemId) => !call.recalled.includes(itemId))) throw notRecalled();
      const live = await lockItems(tx, projectId, call.subject, [...verdicts.keys()]);
      const before = new Map(live.map((item) => [item.id, item]));
      const votes = live.map(({ id: itemId }) => ({ itemId, rating: verdicts.get(itemId) ?? rating }));
      const rated = await countVotes(tx, voter, votes, new Date(clock.now()));
      await saveVotes(tx, { projectId, voter, subject: call.subject, callId, votes });
      for (const { id: itemId, inRecall, subject } of rated)
        if (before.get(itemId)?.inRecall !== inRecall) await invalidatePage(tx, { projectId, subject }, clock);
      const item = rated.find((each) => each.id === id) ?? before.get(id);
      if (!item) throw notRecalled();
      return item;
    });
}

function notRecalled(): Error {
  return gatewayError('not_found', {
    message: 'no call with this id recalled these memories in this project, or the memories have been closed since',
  });
}

/** Locks the memories in `ids` that are live and that the call's end user is allowed to see. */
function lockItems(tx: Queries, projectId: string, subject: string | null, ids: readonly string[]): Promise<Item[]> {
  return tx.query<Item>(
    `select ${itemColumns} from memory_items as item
      where item.id = any($1::uuid[]) and item.project_id = $2::uuid and item.state = 'live'
        and ($3::text is null or item.subject is null or item.subject = $3::text)
      order by item.id
        for update`,
    [ids, projectId, subject],
  );
}

/**
 * Adds the votes to the ratings of the memories, after subtracting earlier votes by the same key. Returns the memories
 * whose ratings have changed.
 */
function countVotes(tx: Queries, voter: string, votes: readonly Vote[], now: Date): Promise<Item[]> {
  const useful = 'greatest(0, item.ratings_useful + changed.useful)';
  const wrong = wrongAfter('changed.wrong');
  return tx.query<Item>(
    `update memory_items as item
        set ratings_useful = ${useful}, ratings_wrong = ${wrong}, wrong_overruled = least(item.wrong_overruled, ${wrong}),
            updated_at = $4::timestamptz
       from (select new.item_id, new.useful::integer - coalesce(old.useful, false)::integer as useful,
                    (not new.useful)::integer - coalesce(not old.useful, false)::integer as wrong
               from unnest($1::uuid[], $2::boolean[]) as new (item_id, useful)
               left join memory_votes old on old.item_id = new.item_id and old.voter = $3::text
              where old.useful is distinct from new.useful) as changed
      where item.id = changed.item_id
     returning ${itemColumns}`,
    [votes.map(({ itemId }) => itemId), votes.map(({ rating }) => rating === 'useful'), voter, now],
  );
}
