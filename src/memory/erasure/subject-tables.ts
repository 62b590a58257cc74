/**
 * Every place of the database that can hold something of a subject, in the order in which erasure goes through them. Data, so that a test
 * can hold it against the schema: a table with a subject, or a text column that no list knows, fails there.
 *
 * It speaks of tables of other rooms too (calls, outbox): one list is what can be checked, and one transaction what can be trusted.
 */

/** Counts of the receipt (shapes 7) that the transaction knows. */
export type ErasedCount = 'memories' | 'profile_pages' | 'episodes' | 'calls' | 'call_parts' | 'graph_facts';

export interface SubjectTable {
  readonly table: string;
  /** Tells its rows apart, so that they go in slices. */
  readonly key: string;
  /** Which rows: $1 is the project (uuid), $2 the subject (text) or its SHA-256 (bytea). Project and subject stand in each (lessons 41). */
  readonly where: string;
  readonly by: 'subject' | 'sha256';
  /** What is changed where the rows stay. */
  readonly set?: string;
  readonly count?: ErasedCount;
  /** When a row came to be: what is older than the fence must be gone in the end. Absent: rows go with others of this list. */
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
  // After the conversations: a batch that begins meanwhile holds these.
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

/** The same rows, found by the SHA-256 alone: when an erasure is finished, nobody knows the subject any more. */
export function whereBySha256({ where }: SubjectTable): string {
  return where.replaceAll('subject = $2::text', `sha256(convert_to(subject, 'UTF8')) = $2::bytea`);
}

/** Erased by code of its own in `erase.ts`: parts of chains hang together. */
export const manuallyErased: readonly string[] = ['call_texts', 'parts', 'memory_words'];

/**
 * What never holds anything of a subject, and why: columns that could (text, lists, JSON, bytes), or all of a table. Tables whose rows are
 * erased need no word.
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
  videos: 'no subject is known of a media call; names and addresses as the vendor made them, no prompt',
  erasures: 'the fence: the SHA-256 of the subject, and who asked',
  audit_log: 'ids, times, names of models, and counts',
  erasure_runs: 'ids, until their runs are deleted',
  'calls.key_prefix': 'of the key',
  'calls.source': 'the application, to which money is charged',
  'calls.route': 'of a closed set',
  'calls.model_asked': 'the name of a model',
  'calls.model': 'the name of a model',
  'calls.code': 'of a closed set',
  'calls.outcome': 'of a closed set',
  'calls.cache': 'of a closed set',
  'calls.plan': 'names of models and fixed reasons',
  'calls.units': 'counts',
};
