import type { Queries } from '../../db/database.ts';

/** Marks facts as ended if no live memory supports them any more. */
export async function expireOrphanedFacts(tx: Queries, closedIds: readonly string[]): Promise<void> {
  if (closedIds.length === 0) return;
  await tx.query(
    `update memory_facts fact set valid_to = now()
      where fact.id in (select fact_id from memory_fact_items where item_id = any($1::uuid[])) and (fact.valid_to is null or fact.valid_to > now())
        and not exists (select 1 from memory_fact_items link join memory_items item on item.id = link.item_id
                         where link.fact_id = fact.id and item.state = 'live')`,
    [closedIds],
  );
}
