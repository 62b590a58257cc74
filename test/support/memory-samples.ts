/** Creates memories, conversations, facts, pages and batches of a project that have a given text in every field. */
import { systemClock } from '../../src/core/time.ts';
import type { Database } from '../../src/db/database.ts';
import { createItems, type Writer } from '../../src/memory/items/items.ts';
import { createTestLearning, storeReadConversation } from '../memory/learning.ts';

export interface MemorySamples {
  readonly conversationId: string;
  /** A memory that was learned from the conversation. */
  readonly learnedId: string;
  /** A memory with two `wrong` ratings. */
  readonly leftOutId: string;
  readonly failedBatchId: string;
}

/** `mark` can have at most 100 characters. */
export async function storeMemorySamples(
  database: Database,
  { projectId, subject, mark, author }: { projectId: string; subject: string; mark: string; author: string },
): Promise<MemorySamples> {
  const learning = createTestLearning(database);
  const text = `Ann likes tea ${mark}`;
  learning.respond = ({ job, text: prompt }) => {
    if (job === 'extract') return { memories: [{ text, names: [], kind: 'fact', importance: 3, evidence: text }] };
    const { new: added } = JSON.parse(prompt) as { new: readonly { id: string }[] };
    const facts = added.map(({ id }) => ({
      item_id: id,
      source: `Ann ${mark}`,
      relation: 'likes',
      target: `tea ${mark}`,
      fact: text,
      replaces: null,
    }));
    return { merges: [], facts, page: `The page says: ${mark}` };
  };
  const conversationId = await storeReadConversation(database, { projectId, subject, texts: [text, 'Thanks.'] });
  await database.query(`update conversations set title = $2::text, text = $3::text where id = $1::uuid`, [
    conversationId,
    text,
    `user: ${text}`,
  ]);
  await database.query(`insert into memory_settings (project_id, settings) values ($1::uuid, '{"batch_of":1}')`, [projectId]);
  await learning.activities.checkLearning(projectId);
  await learning.runBatches(projectId);
  await database.query(`insert into memory_pages (project_id, kind, text) values ($1::uuid, 'knowledge', $2::text)`, [
    projectId,
    `Known: ${mark}`,
  ]);

  learning.respond = () => ({ kind: 'failure', failure: { kind: 'vendor', code: 'upstream_failed', message: `the vendor says ${mark}` } });
  await storeReadConversation(database, { projectId, subject, texts: ['More.'] });
  await learning.activities.checkLearning(projectId);
  await learning.runBatches(projectId);
  await database.query(
    `update memory_batches set state = 'failed', finished_at = now(), run_id = 'run-1' where project_id = $1::uuid and state = 'running' and kind = 'normal'`,
    [projectId],
  );
  const failed = await idOf(database, `select id from memory_batches where project_id = $1::uuid and state = 'failed'`, projectId);
  await database.query(`update memory_batch_groups set state = 'failed' where batch_id = $1::uuid`, [failed]);

  const items = createItems({ database, clock: systemClock });
  const agent: Writer = { origin: 'agent', author: 'key:k7f3a9c2' };
  const item = { kind: 'event', importance: 2, subject, pinned: false } as const;
  const leftOut = await items.write(projectId, { ...item, text: `Moved ${mark}` }, agent);
  await items.rate(projectId, leftOut.id, 'wrong');
  await items.rate(projectId, leftOut.id, 'wrong');
  await items.write(projectId, { ...item, text: `Written ${mark}`, pinned: true }, { origin: 'person', author });
  const learned = await idOf(database, `select id from memory_items where project_id = $1::uuid and origin = 'observed'`, projectId);
  return { conversationId, learnedId: learned, leftOutId: leftOut.id, failedBatchId: failed };
}

async function idOf(database: Database, sql: string, projectId: string): Promise<string> {
  const [row] = await database.query<{ id: string }>(sql, [projectId]);
  if (!row) throw new Error(`no row: ${sql}`);
  return row.id;
}
