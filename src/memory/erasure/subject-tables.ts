/**
 * Every table that can hold data of a subject, in the order of deletion. As data, so that `test/memory/erasure/subject-tables.test.ts`
 * compares it with the schema: a table with a subject, or a text column that no list mentions, fails the test. Missing are `parts`,
 * `prompt_texts`, `released_parts` and `memory_words`, which have no subject: `erase.ts` deletes what nothing else refers to.
 *
 * Includes tables of other modules (calls, outbox): completeness is checked on one list, and atomicity needs one transaction.
 */

/** Counts of the receipt that the transaction determines. */
export type ErasedCount = 'memories' | 'profile_pages' | 'episodes' | 'calls' | 'call_parts' | 'graph_facts';

export interface SubjectTable {
  readonly table: string;
  /**
   * Columns that identify a row in the whole table, so that we can delete rows in batches. Has `project_id` if the
   * rest isn't unique.
   */
  readonly key: string;
  /** Parameters: $1 project (uuid), $2 as in `bySubject` or, with `bySha256`, the subject's SHA-256 (bytea). Every condition names both. */
  readonly where: (condition: string) => string;
  readonly bySha256?: true;
  /** Assignments for tables whose rows stay. */
  readonly set?: string;
  readonly count?: ErasedCount;
  /**
   * Creation time, by the database's clock or as tombstones compare it. Rows older than the tombstone must not remain. Absent when the rows are
   * deleted with another table's.
   */
  readonly since?: string;
  /** How the final check finds the rows: by an index of project and subject, unless each subject has one row. */
  readonly oneRowPerSubject?: true;
}

export const bySubject = 'subject = $2::text';
/** For the final check: the subject itself is no longer known then. PostgreSQL has no index for it. */
export const bySubjectSha256 = `sha256(convert_to(subject, 'UTF8')) = $2::bytea`;

const ofSubject = (condition: string): string => `project_id = $1::uuid and ${condition}`;

export const subjectTables: readonly SubjectTable[] = [
  // Its rows are already deleted, with their parts (`erase.ts`).
  { table: 'call_texts', key: 'call_id', where: ofSubject, since: 'created_at' },
  {
    table: 'outbox',
    key: 'id',
    where: (condition) =>
      `workflow = 'conversationIdle' and input ->> 'conversation_id' in (select id::text from conversations where ${ofSubject(condition)})`,
  },
  { table: 'memory_passages', key: 'id', where: ofSubject },
  { table: 'memory_facts', key: 'id', where: ofSubject, count: 'graph_facts', since: 'created_at' },
  { table: 'memory_entities', key: 'id', where: ofSubject, since: 'created_at' },
  {
    table: 'memory_pages',
    key: 'project_id, subject',
    where: ofSubject,
    count: 'profile_pages',
    since: 'updated_at',
    oneRowPerSubject: true,
  },
  { table: 'memory_items', key: 'id', where: ofSubject, count: 'memories', since: 'created_at' },
  {
    table: 'conversation_parts',
    key: 'conversation_id, position',
    where: (condition) => `conversation_id in (select id from conversations where ${ofSubject(condition)})`,
  },
  { table: 'conversations', key: 'id', where: ofSubject, count: 'episodes', since: 'started_at' },
  // After the conversations, whose rows a starting batch locks.
  {
    table: 'memory_batch_groups',
    key: 'batch_id, position',
    where: ofSubject,
    since: '(select created_at from memory_batches where id = batch_id)',
  },
  {
    table: 'calls',
    key: 'id',
    where: () => 'project_id = $1::uuid and subject_sha256 = $2::bytea',
    bySha256: true,
    set: 'subject_sha256 = null, task_id = null, turn_id = null, agent_id = null, trigger_kind = null, trigger_detail = null',
    count: 'calls',
    since: 'started_at',
  },
];
