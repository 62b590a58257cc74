/** A project's rows without ids, times and its name: equal for two projects that got the same requests. */
import type { Database } from '../../src/db/database.ts';
import type { Project } from './crash-service.ts';

const ofProject = 'project_id = $1::uuid';

/** Ids are left out, and so is the order of rows: several may be of one millisecond. `attempts` of a group and the run of embeddings count what was begun, not what came of it. */
const selections: Readonly<Record<string, string>> = {
  batches: `select kind, state from memory_batches where ${ofProject}`,
  calls: `select source, route, outcome, code, cost_nanos, estimated from calls where ${ofProject} and source <> 'gateway-memory'`,
  conversations: `select state, title, text, subject, messages, batched_messages, learnable, opened from conversations where ${ofProject}`,
  embeddings: `select active, routable, model from memory_embeddings where ${ofProject}`,
  entities: `select name, subject from memory_entities where ${ofProject}`,
  erasures: `select state, deleted, purged, discarded from erasures where ${ofProject}`,
  erasureRuns: `select 1 from erasure_runs where erasure_id in (select id from erasures where ${ofProject})`,
  facts: `select subject, relation, fact, valid_to is null as holds from memory_facts where ${ofProject}`,
  groups: `select subject, state, messages, failures, unusable, error, written, repeated, dropped, merged, facts
             from memory_batch_groups where ${ofProject}`,
  items: `select text, kind, subject, state, origin, evidence from memory_items where ${ofProject}`,
  outbox: `select workflow from outbox where ${ofProject}`,
  pages: `select kind, subject, text from memory_pages where ${ofProject}`,
  parts: `select count(*)::integer as n from parts where ${ofProject}`,
  passages: `select kind, subject, text, embedding_model, embedding_dims from memory_passages where ${ofProject}`,
  ranges: `select from_position, to_position from memory_batch_ranges where batch_id in (select id from memory_batches where ${ofProject})`,
  texts: `select count(*)::integer as n from call_texts where ${ofProject}`,
  videos: `select state, failure, cost_nanos, cardinality(uris) as files from videos where ${ofProject}`,
};

export async function rowsOf(database: Database, { id, slug }: Project): Promise<unknown> {
  const rows: Record<string, readonly string[]> = {};
  for (const [name, selection] of Object.entries(selections)) {
    const found = await database.query(selection, [id]);
    rows[name] = found.map((row) => JSON.stringify(row).replaceAll(slug, 'the-project')).sort();
  }
  return rows;
}

/** Rows of the project that stand for pending work. */
const unfinished = `
  select 'a conversation' as what from conversations where ${ofProject} and state <> 'read'
  union all select 'waiting messages' from conversations join memory_settings using (project_id)
    where ${ofProject} and learnable and messages - batched_messages >= (settings ->> 'batch_of')::integer
  union all select 'a batch' from memory_batches where ${ofProject} and state <> 'done'
  union all select 'vectors' from memory_embeddings where ${ofProject} and active
  union all select 'an erasure' from erasures where ${ofProject} and state <> 'done'
  union all select 'a video' from videos where ${ofProject} and state = 'running'
  union all select 'an outbox row' from outbox where ${ofProject}
  union all select 'cleanup' from memory_settings
    where ${ofProject} and settings ->> 'delete_conversations_after_days' is not null
      and exists (select 1 from memory_items where ${ofProject} and state = 'closed' union all select 1 from conversations where ${ofProject})`;

export async function openWorkOf(database: Database, { id, slug }: Project): Promise<readonly string[]> {
  const rows = await database.query<{ what: string }>(unfinished, [id]);
  return rows.map(({ what }) => `${slug}: ${what}`);
}
