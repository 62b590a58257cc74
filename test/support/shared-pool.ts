/**
 * Lists who may start transactions directly on the main pool, which all projects share.
 *
 * A transaction of a request often waits for another request of the same project, e.g. for the project's lock. If each
 * of them held a connection of the main pool meanwhile, one key could use up the pool, and other projects would get
 * 503. So the memory module uses `databaseOf` (`src/db/query-slots.ts`) for requests. The files listed here only start
 * transactions in the background, a few at a time.
 */
export const mayUseSharedPool: readonly string[] = [
  'src/memory/conversations/close-idle.ts',
  'src/memory/conversations/convert-prompts.ts',
  'src/memory/conversations/episodes.ts',
  'src/memory/conversations/idle-timer.ts',
  'src/memory/erasure/erasure-steps.ts',
  'src/memory/erasure/retention.ts',
  'src/memory/indexing/embed-passages.ts',
  'src/memory/indexing/reindex.ts',
  'src/memory/indexing/word-statistics.ts',
  'src/memory/learning/begin-batch.ts',
  'src/memory/learning/groups.ts',
  'src/memory/learning/replay.ts',
  'src/memory/records/settings.ts',
  'src/memory/triggers/embedding-runs.ts',
  'src/memory/triggers/learning-triggers.ts',
  // These modules have no transactions that wait for the memory of a project.
  ...['app', 'ceilings', 'db', 'journal', 'keys', 'people', 'projects', 'usage', 'videos'].map((module) => `src/${module}/`),
];
