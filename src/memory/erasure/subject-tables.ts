/**
 * Every table that can hold data of a subject, in the order of deletion. As data, so that a test compares it with the schema: a table with a
 * subject, or a text column that no list mentions, fails the test.
 *
 * Includes tables of other modules (calls, outbox): completeness is checked on one list, and atomicity needs one transaction.
 */

/** Counts of the receipt that the transaction determines. */
export type ErasedCount = 'memories' | 'profile_pages' | 'episodes' | 'calls' | 'call_parts' | 'graph_facts';

export interface SubjectTable {
  readonly table: string;
  /** Identifies a row, so that rows are deleted in batches. */
  readonly key: string;
  /** Parameters: $1 project (uuid), $2 subject (text) or its SHA-256 (bytea). Every condition names both. */
  readonly where: string;
  readonly by: 'subject' | 'sha256';
  /** Assignments for tables whose rows stay. */
  readonly set?: string;
  readonly count?: ErasedCount;
  /** Creation time. Rows older than the tombstone must not remain. Absent when the rows are deleted with another table's. */
  readonly since?: string;
}

const ofSubject = 'project_id = $1::uuid and subject = $2::text';
const conversations = `select id from conversations where ${ofSubject}`;

export const subjectTables: readonly SubjectTable[] = [
  {
    table: 'outbox',
    key: 'id',
    where: `workflow = 'conversationIdle' and input ->> 'conversation_id' in (select id::text from conversations where ${ofSubject})`,
    by: 'subject',
  },
  { table: 'memory_passages', key: 'id', where: ofSubject, by: 'subject' },
  { table: 'memory_facts', key: 'id', where: ofSubject, by: 'subject', count: 'graph_facts', since: 'created_at' },
  { table: 'memory_entities', key: 'id', where: ofSubject, by: 'subject', since: 'created_at' },
  { table: 'memory_pages', key: 'subject', where: ofSubject, by: 'subject', count: 'profile_pages', since: 'updated_at' },
  { table: 'memory_items', key: 'id', where: ofSubject, by: 'subject', count: 'memories', since: 'created_at' },
  {
    table: 'conversation_parts',
    key: 'conversation_id, position',
    where: `conversation_id in (${conversations})`,
    by: 'subject',
  },
  { table: 'conversations', key: 'id', where: ofSubject, by: 'subject', count: 'episodes', since: 'started_at' },
  // After the conversations, whose rows a starting batch locks.
  {
    table: 'memory_batch_groups',
    key: 'batch_id, position',
    where: ofSubject,
    by: 'subject',
    since: '(select created_at from memory_batches where id = batch_id)',
  },
  {
    table: 'calls',
    key: 'id',
    where: 'project_id = $1::uuid and subject_sha256 = $2::bytea',
    by: 'sha256',
    set: 'subject_sha256 = null, task_id = null, turn_id = null, agent_id = null, trigger_kind = null, trigger_detail = null',
    count: 'calls',
    since: 'started_at',
  },
];

/** The condition by SHA-256 alone, for the final check: the subject itself is no longer known then. */
export function whereBySha256({ where }: SubjectTable): string {
  return where.replaceAll('subject = $2::text', `sha256(convert_to(subject, 'UTF8')) = $2::bytea`);
}

/** Erased by code in `erase.ts`, because parts of chains depend on each other. */
export const manuallyErased: readonly string[] = ['call_texts', 'parts', 'memory_words'];

/**
 * Columns and tables that never hold subject data, each with the reason. Covers every column of a type that could hold it (text, lists, JSON,
 * bytes) in tables whose rows are not deleted.
 */
export const notSubjectData: Readonly<Record<string, string>> = {
  projects: 'of the deployment',
  virtual_keys: 'of the deployment',
  key_ceilings: 'of the deployment',
  applications: 'of the deployment',
  catalog_models: 'of the deployment',
  model_prices: 'of the deployment',
  memory_settings: 'of the deployment',
  schema_migrations: 'of the deployment',
  limit_counters: 'names of keys and applications',
  memory_embeddings: 'the name of a model',
  memory_batches: 'of closed sets',
  attempts: 'names of providers and models, outcomes of a closed set',
  videos: 'media calls have no subject; vendor-made names and URLs, no prompt',
  erasures: 'the tombstone: the SHA-256 of the subject, and who asked',
  audit_log: 'ids, times, names of models, and counts',
  erasure_runs: 'ids, until their runs are deleted',
  'calls.key_prefix': 'of the key',
  'calls.source': 'the application that the cost is charged to',
  'calls.route': 'of a closed set',
  'calls.model_asked': 'the name of a model',
  'calls.model': 'the name of a model',
  'calls.code': 'of a closed set',
  'calls.outcome': 'of a closed set',
  'calls.cache': 'of a closed set',
  'calls.plan': 'names of models and fixed reasons',
  'calls.units': 'counts',
};
