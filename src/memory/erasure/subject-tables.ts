/**
 * Lists every table that can hold data of a subject, in the order of deletion. It's data rather than code so that
 * `test/memory/erasure/subject-tables.test.ts` can compare it with the schema. That test fails if a table has a subject
 * or a text column that isn't on any list. `parts`, `prompt_texts`, `released_parts` and `memory_words` don't have a
 * subject, so `erase.ts` deletes everything from them that isn't referenced any more.
 *
 * Some of these tables belong to other modules (calls, outbox). We need a single list to check that it's complete, and
 * the erasure has to be one transaction.
 */

export type ErasedCount = 'memories' | 'profile_pages' | 'episodes' | 'calls' | 'call_parts' | 'graph_facts';

export interface SubjectTable {
  readonly table: string;
  /**
   * The columns that identify a row, so that we can delete in batches. Include `project_id` if the others are only
   * unique within a project.
   */
  readonly key: string;
  /**
   * Returns a SQL condition that selects the subject's rows. `condition` compares the subject, e.g. `bySubject`. The
   * result has to use both parameters: $1 is the project (uuid) and $2 the subject. With `bySubjectSha256` or
   * `bySha256`, $2 is the subject's SHA-256 instead (bytea).
   */
  readonly where: (condition: string) => string;
  readonly bySha256?: true;
  /** The SET clause for tables whose rows we update instead of deleting them. */
  readonly set?: string;
  readonly count?: ErasedCount;
  /**
   * SQL for the time when a row was created, which the final check compares with the time of the tombstone. The check
   * fails if it finds a row from before the tombstone. Leave this out for tables whose rows are deleted together with
   * the rows of another table.
   */
  readonly since?: string;
  /**
   * True if this table has at most one row per subject. The final check of an erasure only knows the subject's hash,
   * and in such a table it can simply hash the subject of every row. In other tables, that would take too long, so it
   * first looks up the subject in the index on project and subject.
   */
  readonly oneRowPerSubject?: true;
}

export const bySubject = 'subject = $2::text';
/**
 * SQL condition for the final check of an erasure, when only the hash of the subject is still known. There's no index
 * for it.
 */
export const bySubjectSha256 = `sha256(convert_to(subject, 'UTF8')) = $2::bytea`;

export const ofSubject = (condition: string): string => `project_id = $1::uuid and ${condition}`;

export const subjectTables: readonly SubjectTable[] = [
  // We only need this entry for the final check. `erase.ts` deletes the texts of calls and their parts before it goes
  // through this list.
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
  { table: 'memory_votes', key: 'item_id, voter', where: ofSubject, since: 'voted_at' },
  { table: 'memory_items', key: 'id', where: ofSubject, count: 'memories', since: 'created_at' },
  {
    table: 'conversation_parts',
    key: 'conversation_id, position',
    where: (condition) => `conversation_id in (select id from conversations where ${ofSubject(condition)})`,
  },
  { table: 'conversations', key: 'id', where: ofSubject, count: 'episodes', since: 'started_at' },
  // Keep this after the conversations. When a batch starts, it also locks conversations first, so a different order
  // could result in a deadlock.
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
