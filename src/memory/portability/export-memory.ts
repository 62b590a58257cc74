/**
 * Exports the memory of a project or a single subject as lines of text (docs/memory-export.md).
 *
 * We read page by page, only as fast as the caller, and there's never more than one page in memory. No transaction
 * spans the pages. To export memories and facts as of a single moment, we take the time while we hold the project's
 * exclusive lock, because all earlier changes have been committed by then. We leave out anything that's written later.
 * If it supersedes something, we export the old version as if that hadn't happened.
 */
import { gatewayError } from '../../core/errors.ts';
import type { Database } from '../../db/database.ts';
import { lockProject } from '../../db/locks.ts';
import { databaseOf } from '../../db/query-slots.ts';
import { readCallText } from '../conversations/read-call-text.ts';
import { readConversations } from './export-conversations.ts';
import { type ExportedRecord, type ExportScope, firstId, type Page, pageSize, readInPages } from './export-pages.ts';
import { formatName, formatVersion, type RecordType, timeSql } from './format.ts';
import { toLinePieces } from './json-lines.ts';

export interface ExportRequest {
  readonly projectId: string;
  readonly project: string;
  /** Null for the whole project. */
  readonly subject: string | null;
}

export type ExportMemory = (request: ExportRequest) => AsyncGenerator<string, ExportCounts>;

export type ExportCounts = Readonly<Partial<Record<RecordType, number>>>;

/**
 * Creates a function that yields an export as chunks of text. The last line says how many records there are of each
 * type, and the generator returns the same numbers.
 *
 * Throws `budget_unavailable` if another export of the project is running, because each export keeps a page of records
 * in memory.
 */
export function createExportMemory({ database }: { readonly database: Database }): ExportMemory {
  const running = new Set<string>();
  const assertIdle = (projectId: string): void => {
    const message = 'an export of this project is already running; try again when it has finished';
    if (running.has(projectId)) throw gatewayError('budget_unavailable', { message, retryAfterSeconds: 60 });
  };
  // Only count the export as running once the caller has read the first line. A caller that never reads would otherwise
  // block all other exports.
  const exportOnce: ExportMemory = async function* (request) {
    assertIdle(request.projectId);
    running.add(request.projectId);
    try {
      return yield* readLines(request);
    } finally {
      running.delete(request.projectId);
    }
  };
  const readLines: ExportMemory = async function* ({ projectId, project, subject }) {
    const exportedAt = await takeCut(database, projectId);
    const scope = { queries: databaseOf(database, projectId), projectId, subject, exportedAt };
    yield* toLinePieces([{ type: 'header', format: formatName, version: formatVersion, project, subject, exported_at: exportedAt }]);
    const counts: Partial<Record<RecordType, number>> = {};
    for await (const page of readRecords(scope)) {
      for (const { type } of page) counts[type] = (counts[type] ?? 0) + 1;
      yield* toLinePieces(page);
    }
    yield* toLinePieces([{ type: 'end', records: counts }]);
    return counts;
  };
  return (request) => {
    assertIdle(request.projectId);
    return exportOnce(request);
  };
}

async function takeCut(database: Database, projectId: string): Promise<string> {
  return databaseOf(database, projectId).transaction(async (tx) => {
    await lockProject(tx, projectId, 'exclusive');
    const [row] = await tx.query<{ now: string }>(`select ${timeSql('clock_timestamp()')} as now`);
    if (!row) throw new Error('expected the database to return its current time');
    return row.now;
  });
}

/**
 * Yields records in an order in which an import can process them: every record comes after the ones that it refers to.
 */
async function* readRecords(scope: ExportScope): AsyncGenerator<Page, void> {
  yield* readConversations(scope);
  yield* readById(scope, itemsSql);
  yield* readVotes(scope);
  yield* readById(scope, successionsSql);
  yield* readById(scope, entitiesSql);
  yield* readById(scope, factsSql);
  yield* readById(scope, factSuccessionsSql);
  yield* readPages(scope);
  if (scope.subject !== null) yield* readPrompts(scope, scope.subject);
}

/** Runs a query once for each page. The id of the last row on the previous page is one of its parameters. */
async function* readById({ queries, projectId, subject, exportedAt }: ExportScope, text: string): AsyncGenerator<Page, void> {
  const read = (after: string) =>
    queries.query<ExportedRecord & { readonly key: string }>(text, [projectId, subject, exportedAt, after, pageSize]);
  for await (const rows of readInPages(firstId, read, ({ key }) => key)) yield rows.map(({ key: _, ...record }) => record);
}

/**
 * The export of a subject contains the votes on its memories, as well as the votes that its calls cast on memories of
 * the whole project. The latter can only be imported into a project that has these memories.
 */
function readVotes({ queries, projectId, subject, exportedAt }: ExportScope): AsyncGenerator<Page, void> {
  const read = (after: { item: string; voter: string }) =>
    queries.query<ExportedRecord & { item: string; voter: string }>(
      `select 'vote' as type, vote.item_id as item, vote.voter, vote.subject, case when vote.useful then 'useful' else 'wrong' end as rating,
              ${timeSql('vote.voted_at')} as voted_at
         from memory_votes vote
         join memory_items item on item.id = vote.item_id
        where vote.project_id = $1::uuid and ($2::text is null or vote.subject = $2::text or item.subject = $2::text)
          and ${isIncluded('item')} and (vote.item_id, vote.voter) > ($4::uuid, $5::text)
        order by vote.item_id, vote.voter limit $6::integer`,
      [projectId, subject, exportedAt, after.item, after.voter, pageSize],
    );
  return readInPages({ item: firstId, voter: '' }, read, (last) => last);
}

/**
 * SQL that's true for rows that belong to the export. If the time of a row is in the future, the row was imported. We
 * don't know when it was written, so we always include it.
 */
const isIncluded = (row: string): string => `(${row}.created_at <= $3::timestamptz or ${row}.created_at > statement_timestamp())`;

const ofScope = (row: string): string =>
  `${row}.project_id = $1::uuid and ($2::text is null or ${row}.subject = $2::text) and ${isIncluded(row)} and ${row}.id > $4::uuid`;

const isSuperseded = isIncluded('successor');
const isReopened = `not ${isSuperseded}`;

const itemsSql = `
  select 'item' as type, item.id as key, item.id, item.subject, item.text, item.kind, item.importance::integer as importance, item.pinned,
         item.origin, item.author, case when ${isReopened} then 'live' else item.state end as state, item.ratings_useful as useful,
         item.ratings_wrong as wrong, item.wrong_overruled, item.conversation_id as conversation, item.evidence,
         ${timeSql('item.created_at')} as created_at, ${timeSql('item.updated_at')} as updated_at,
         case when ${isReopened} then null else ${timeSql('item.closed_at')} end as closed_at
    from memory_items item
    left join memory_items successor on successor.id = item.superseded_by
   where ${ofScope('item')}
   order by item.id limit $5::integer`;

const successionsSql = `
  select 'succession' as type, item.id as key, item.id as item, item.supersedes,
         case when ${isSuperseded} then item.superseded_by end as superseded_by
    from memory_items item
    left join memory_items successor on successor.id = item.superseded_by
   where ${ofScope('item')} and (item.supersedes is not null or ${isSuperseded})
   order by item.id limit $5::integer`;

const entitiesSql = `
  select 'entity' as type, entity.id as key, entity.id, entity.subject, entity.name, ${timeSql('entity.created_at')} as created_at
    from memory_entities entity
   where ${ofScope('entity')}
   order by entity.id limit $5::integer`;

const factsSql = `
  select 'fact' as type, fact.id as key, fact.id, fact.subject, source.name as source, fact.relation, target.name as target, fact.fact,
         fact.evidence,
         (select jsonb_agg(item.id order by item.id) from memory_fact_items link join memory_items item on item.id = link.item_id
           where link.fact_id = fact.id and ${isIncluded('item')}) as items,
         ${timeSql('fact.valid_from')} as valid_from, case when ${isReopened} then null else ${timeSql('fact.valid_to')} end as valid_to,
         ${timeSql('fact.created_at')} as created_at
    from memory_facts fact
    join memory_entities source on source.id = fact.source_id
    join memory_entities target on target.id = fact.target_id
    left join memory_facts successor on successor.id = fact.superseded_by
   where ${ofScope('fact')}
   order by fact.id limit $5::integer`;

const factSuccessionsSql = `
  select 'succession' as type, fact.id as key, fact.id as fact, fact.superseded_by
    from memory_facts fact
    join memory_facts successor on successor.id = fact.superseded_by
   where ${ofScope('fact')} and ${isSuperseded}
   order by fact.id limit $5::integer`;

interface PageRow extends ExportedRecord {
  readonly subject: string | null;
}

function readPages({ queries, projectId, subject }: ExportScope): AsyncGenerator<Page, void> {
  const read = (after: string | null) =>
    queries.query<PageRow>(
      `select 'page' as type, subject, text, ${timeSql('updated_at')} as updated_at
         from memory_pages
        where project_id = $1::uuid and ($2::text is null or subject = $2::text) and ($3::text is null or coalesce(subject, '') > $3::text)
        order by coalesce(subject, '') limit $4::integer`,
      [projectId, subject, after, pageSize],
    );
  return readInPages<string | null, PageRow>(null, read, (last) => last.subject ?? '');
}

/**
 * Reads what we store about a subject's calls, except for what's in its conversations. That's system prompts, tool
 * results, and calls that aren't part of a conversation.
 */
async function* readPrompts({ queries, projectId }: ExportScope, subject: string): AsyncGenerator<Page, void> {
  const read = (after: string) =>
    queries.query<{ id: string; isFiled: boolean; createdAt: string }>(
      `select call_id as id, conversation_id is not null as "isFiled", ${timeSql('created_at')} as "createdAt"
         from call_texts where project_id = $1::uuid and subject = $2::text and call_id > $3::uuid
        order by call_id limit $4::integer`,
      [projectId, subject, after, pageSize],
    );
  for await (const calls of readInPages(firstId, read, ({ id }) => id)) {
    for (const { id, isFiled, createdAt } of calls) {
      const text = await readCallText(queries, projectId, id, maxPrompt);
      if (!text || (isFiled && text.extras.length === 0)) continue;
      const messages = text.messages.map(({ role, text, toolCalls }) => ({ role, text, tool_calls: toolCalls }));
      const prompt = {
        type: 'prompt' as const,
        call: id,
        created_at: createdAt,
        extras: text.extras.map(({ isCut: _, ...extra }) => extra),
        ...(!isFiled && { messages }),
      };
      yield [prompt];
    }
  }
}

/** How much of a request we store (`dialects/prompt/prompt-limits.ts`). */
const maxPrompt = { maxMessages: 2_000, maxText: 4 * 1024 * 1024 };
