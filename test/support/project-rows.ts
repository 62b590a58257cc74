/**
 * Returns the rows of a project without ids, times and the project's name, so that two projects with the same requests
 * have equal rows.
 */
import type { Database } from '../../src/db/database.ts';
import type { Project } from './crash-service.ts';

const ofProject = 'project_id = $1::uuid';

/**
 * Several rows can be from the same millisecond, so we compare neither their ids nor their order. Some columns only
 * count what was started, like `attempts` of a group and the number of embedding runs. We leave those out, too.
 */
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
  votes: `select useful, subject from memory_votes where ${ofProject}`,
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

/** Selects everything in the projects that still has to be done. */
const unfinished = `
  select project_id, 'a conversation' as what from conversations where state <> 'read'
  union all select project_id, 'waiting messages' from conversations join memory_settings using (project_id)
    where learnable and messages - batched_messages >= (settings ->> 'batch_of')::integer
  union all select project_id, 'a batch' from memory_batches where state <> 'done'
  union all select project_id, 'vectors' from memory_embeddings where active
  union all select project_id, 'an idle timer' from idle_timers where active
  union all select project_id, 'an erasure' from erasures where state <> 'done'
  union all select project_id, 'a video' from videos where state = 'running'
  union all select project_id, 'an outbox row' from outbox
  union all select project_id, 'cleanup' from memory_settings
    where settings ->> 'delete_conversations_after_days' is not null
      and project_id in (select project_id from memory_items where state = 'closed' union all select project_id from conversations)`;

export async function openWorkOf(database: Database, projects: readonly Project[]): Promise<readonly string[]> {
  const rows = await database.query<{ slug: string; what: string }>(
    `select slug, what from (${unfinished}) as work join projects on projects.id = project_id where project_id = any($1::uuid[])`,
    [projects.map(({ id }) => id)],
  );
  return rows.map(({ slug, what }) => `${slug}: ${what}`);
}
