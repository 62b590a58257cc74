/**
 * Lists every table that can hold data of a subject, in the order of deletion. It's data rather than code so that
 * `test/memory/erasure/subject-tables.test.ts` can compare it with the schema. That test fails if a table has a subject
 * or a text column that isn't on any list. `parts`, `prompt_texts`, `released_parts` and `memory_words` don't have a
 * subject, so `erase.ts` deletes from them whatever isn't referenced any more.
 *
 * The list includes tables of other modules (calls, outbox), because we can only check for completeness if there's a
 * single list, and the erasure has to be one transaction.
 */

/** The counts in the receipt that the transaction computes. */
export type ErasedCount = 'memories' | 'profile_pages' | 'episodes' | 'calls' | 'call_parts' | 'graph_facts';

export interface SubjectTable {
  readonly table: string;
  /**
   * The columns that identify a row in the whole table, so that we can delete rows in batches. Includes `project_id` if
   * the rest isn't unique.
   */
  readonly key: string;
  /**
   * $1 is the project (uuid). $2 is the subject as in `bySubject` or, with `bySha256`, its SHA-256 (bytea). Every
   * condition uses both parameters.
   */
  readonly where: (condition: string) => string;
  readonly bySha256?: true;
  /** The assignments for tables whose rows are kept. */
  readonly set?: string;
  readonly count?: ErasedCount;
  /**
   * The creation time, either by the database clock or the time that we compare with tombstones. No row may be older
   * than the tombstone. Omit it if the rows are deleted together with those of another table.
   */
  readonly since?: string;
  /**
   * Set this if each subject has at most one row. For other tables, the final check looks up the subject in an index of
   * project and subject.
   */
  readonly oneRowPerSubject?: true;
}

export const bySubject = 'subject = $2::text';
/** Used by the final check, which no longer knows the subject itself. PostgreSQL has no index for this condition. */
export const bySubjectSha256 = `sha256(convert_to(subject, 'UTF8')) = $2::bytea`;

const ofSubject = (condition: string): string => `project_id = $1::uuid and ${condition}`;

export const subjectTables: readonly SubjectTable[] = [
  // `erase.ts` has already deleted these rows and their parts.
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
  // Must come after the conversations, because a starting batch locks their rows first.
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
