/**
 * Loads existing memories and facts that may be related to what a batch has just learned. If the group has an end user,
 * we only load what belongs to that end user, and otherwise what belongs to the whole project.
 */
import type { Database } from '../../db/database.ts';
import { inRecallSql } from '../records/item-record.ts';
import { anyTermSql, tokenizeForQuery } from '../text/lexemes.ts';
import { hasSameScope } from '../text/subject-scope.ts';
import type { ConsolidationContext, ContextFact, ContextItem } from './consolidation.ts';
import type { Group } from './groups.ts';

/** Limits the length of the search query, which consists of the texts of the new memories. */
const maxQueryLength = 8_000;
const maxRelated = 40;
/** When the model writes the page, it gets this many important memories in addition to the related ones. */
const maxImportant = 40;
const maxFacts = 60;

const columns = `item.id, item.text, (item.origin <> 'observed' or item.pinned) as "isProtected"`;
const belongsToGroupSql = `item.project_id = $1::uuid and ${hasSameScope('item.subject', '$2')} and ${inRecallSql}`;
const matchesQuerySql = anyTermSql('$3::text');

/**
 * Returns null if there's nothing to do, i.e. if none of the learned memories is live and no page has to be rebuilt.
 */
export async function loadContext(database: Database, { projectId, subject, batchId }: Group): Promise<ConsolidationContext | null> {
  const added = await database.query<ContextItem>(
    `select ${columns} from memory_items item where ${belongsToGroupSql} and item.batch_id = $3::uuid order by item.id`,
    [projectId, subject, batchId],
  );
  if (added.length === 0 && !(await isPageBatch(database, batchId))) return null;
  const addedText = added.map(({ text }) => text).join('\n');
  const query = tokenizeForQuery(addedText.slice(0, maxQueryLength));
  const related = await database.query<ContextItem>(
    `select ${columns}
       from memory_passages passage join memory_items item on item.id = passage.item_id
      where passage.project_id = $1::uuid and passage.item_id is not null and passage.lexemes @@ ${matchesQuerySql} and ${belongsToGroupSql} and item.batch_id is distinct from $4::uuid
      order by ts_rank(passage.lexemes, ${matchesQuerySql}) desc, item.id desc
      limit $5::integer`,
    [projectId, subject, query, batchId, maxRelated],
  );
  const important = await database.query<ContextItem>(
    `select ${columns} from memory_items item
      where ${belongsToGroupSql} and item.batch_id is distinct from $3::uuid
      order by item.pinned desc, item.importance desc, item.created_at desc
      limit $4::integer`,
    [projectId, subject, batchId, maxImportant],
  );
  const facts = await database.query<ContextFact>(
    `select fact.id, source.name as source, fact.relation, target.name as target
       from memory_facts fact
       join memory_entities source on source.id = fact.source_id
       join memory_entities target on target.id = fact.target_id
      where fact.project_id = $1::uuid and ${hasSameScope('fact.subject', '$2')} and (fact.valid_to is null or fact.valid_to > now())
      order by fact.lexemes @@ ${matchesQuerySql} desc, fact.created_at desc
      limit $4::integer`,
    [projectId, subject, query, maxFacts],
  );
  const known = [...new Map([...related, ...important].map((item) => [item.id, item])).values()];
  return added.length + known.length === 0 ? null : { subject, added, known, facts };
}

async function isPageBatch(database: Database, batchId: string): Promise<boolean> {
  const rows = await database.query(`select 1 from memory_batches where id = $1::uuid and kind = 'page'`, [batchId]);
  return rows.length > 0;
}
