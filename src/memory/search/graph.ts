import { z } from 'zod';
import type { Database, Queries } from '../../db/database.ts';
import { databaseOf } from '../../db/query-slots.ts';
import { optionalSubject, storableText, toOptionalBody, withDefault } from '../items/item-schemas.ts';
import { anyTermSql, foldName, foldRelation, tokenizeForQuery } from '../text/lexemes.ts';
import { inScope } from '../text/subject-scope.ts';

const nameSchema = z
  .string()
  .max(2_000)
  .pipe(storableText)
  .nullish()
  .transform((value) => value || null);

/** The body of a request for facts. Unknown fields are ignored, and an empty name matches everything. */
export const graphQuerySchema = z.preprocess(
  toOptionalBody,
  z.object({
    query: nameSchema.describe('text that the fact contains'),
    entity: nameSchema.describe('name of an entity at either end of the fact'),
    relation: nameSchema,
    subject: optionalSubject,
    limit: withDefault(z.int().min(1).max(200), 50).describe('by default 50'),
  }),
);

export type GraphQuery = z.output<typeof graphQuerySchema>;

export interface Fact {
  readonly id: string;
  readonly sourceId: string;
  readonly sourceName: string;
  readonly relation: string;
  readonly targetId: string;
  readonly targetName: string;
  readonly fact: string;
  readonly subject: string | null;
  readonly validFrom: Date;
  readonly validTo: Date | null;
  readonly createdAt: Date;
  readonly itemIds: readonly string[];
}

const selectFacts = `
  select fact.id, fact.source_id as "sourceId", source.name as "sourceName", fact.relation, fact.target_id as "targetId",
         target.name as "targetName", fact.fact, fact.subject, fact.valid_from as "validFrom", fact.valid_to as "validTo",
         fact.created_at as "createdAt",
         (select coalesce(array_agg(link.item_id::text order by link.item_id), '{}')
            from memory_fact_items link where link.fact_id = fact.id) as "itemIds"`;

const joinEntities = (facts: string): string => `
    from ${facts} fact
    join memory_entities source on source.id = fact.source_id
    join memory_entities target on target.id = fact.target_id`;

const fromFacts = joinEntities('memory_facts');

/** Selects the entities whose name is $3. They may belong to any subject. */
const entityIds = `array(select id from memory_entities where project_id = $1::uuid and folded_name = $3::text)`;

/** The WHERE clause of the search. `toParameters` returns its parameters $1 to $5. */
const matchesQuery = `
   where fact.project_id = $1::uuid and (fact.valid_to is null or fact.valid_to > now()) and ${inScope('fact.subject', '$2')}
     and ($3::text is null or fact.id in (
       select id from memory_facts where source_id = any(${entityIds}) union select id from memory_facts where target_id = any(${entityIds})))
     and ($4::text is null or fact.relation = $4::text)
     and ($5::text is null or fact.lexemes @@ ${anyTermSql('$5::text')})`;

function toParameters(projectId: string, { query, entity, relation, subject }: GraphQuery): unknown[] {
  return [projectId, subject, entity && foldName(entity), relation && foldRelation(relation), query && tokenizeForQuery(query)];
}

/** Finds facts by the name of either entity, by relation, or by words in `query`. The newest facts come first. */
export function createGraph({ database }: { readonly database: Database }) {
  return (projectId: string, query: GraphQuery): Promise<Fact[]> =>
    databaseOf(database, projectId).query<Fact>(
      `${selectFacts} ${fromFacts} ${matchesQuery} order by fact.created_at desc, fact.id desc limit $6::integer`,
      [...toParameters(projectId, query), query.limit],
    );
}

/** Counts the facts that match a query, up to `max`. The query's own limit is ignored. */
export async function countFacts(queries: Queries, projectId: string, query: GraphQuery, max: number): Promise<number> {
  const [row] = await queries.query<{ count: number }>(
    `select count(*)::integer as count from (select 1 from memory_facts fact ${matchesQuery} limit $6::integer) matches`,
    [...toParameters(projectId, query), max],
  );
  return row?.count ?? 0;
}

/**
 * There's no index of the facts that are still valid, so we look for them among the newest facts. This is how many of
 * those we read.
 */
const maxRead = 10_000;

export function listFactsOfSubject(queries: Queries, projectId: string, subject: string, limit: number): Promise<Fact[]> {
  const newest = `(select * from memory_facts where project_id = $1::uuid and subject = $2::text order by created_at desc limit $4::integer)`;
  return queries.query<Fact>(
    `${selectFacts} ${joinEntities(newest)}
      where fact.valid_to is null or fact.valid_to > now()
      order by fact.created_at desc, fact.id desc
      limit $3::integer`,
    [projectId, subject, limit, maxRead],
  );
}

/** Lists the newest facts that are based on a memory, even if they're no longer valid. */
export function listFactsOfItem(queries: Queries, itemId: string, limit: number): Promise<Fact[]> {
  return queries.query<Fact>(
    `${selectFacts} ${fromFacts}
      where fact.id in (select fact_id from memory_fact_items where item_id = $1::uuid)
      order by fact.created_at desc, fact.id desc
      limit $2::integer`,
    [itemId, limit],
  );
}
