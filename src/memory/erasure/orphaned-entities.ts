import type { Queries } from '../../db/database.ts';

/** Deletes the entities that no fact refers to any more. */
export async function deleteOrphanedEntities(tx: Queries, entityIds: readonly string[]): Promise<void> {
  await tx.query(
    // Don't merge the two conditions with OR, because PostgreSQL would then scan the whole facts table.
    `delete from memory_entities entity
      where entity.id = any($1::uuid[])
        and not exists (select 1 from memory_facts fact where fact.source_id = entity.id)
        and not exists (select 1 from memory_facts fact where fact.target_id = entity.id)`,
    [entityIds],
  );
}
