/**
 * Tests the word statistics of a project. They are collected from many passages, but never from data that is being
 * erased at the same time. Also tests the vectors of passages.
 */
import { expect, test } from '@jest/globals';
import { systemClock } from '../../../src/core/time.ts';
import type { Database } from '../../../src/db/database.ts';
import { createErase } from '../../../src/memory/erasure/erase.ts';
import { createPassageEmbedder } from '../../../src/memory/indexing/embed-passages.ts';
import { refreshWordStatistics } from '../../../src/memory/indexing/word-statistics.ts';
import { describeDatabases } from '../../db/databases.ts';
import { eventually } from '../../support/gateway.ts';
import { createProject, record, settledCall } from '../calls.ts';

async function fill(database: Database): Promise<string> {
  const projectId = await createProject(database);
  await database.query(
    `with items as (
       insert into memory_items (id, project_id, subject, text, kind, importance, origin, author)
       select gen_random_uuid(), $1::uuid, case when n % 2 = 0 then 'ann' end, case when n % 2 = 0 then 'annsword' else 'tea' end, 'fact', 3, 'agent', 'key:x'
         from generate_series(1, 1200) n
       returning id, subject, text)
     insert into memory_passages (project_id, subject, item_id, kind, text, lexemes)
     select $1::uuid, subject, id, 'fact', text, to_tsvector('simple', text) from items`,
    [projectId],
  );
  await database.query('insert into memory_embeddings (project_id) values ($1::uuid)', [projectId]);
  return projectId;
}

async function wordsOf(database: Database, projectId: string): Promise<unknown[]> {
  const rows = await database.query<{ word: string }>('select word from memory_words where project_id = $1::uuid order by word', [
    projectId,
  ]);
  return rows.map(({ word }) => word);
}

describeDatabases('word statistics', (database) => {
  test("counts a large project's words and recounts them when a subject is erased", async () => {
    const projectId = await fill(database());
    await refreshWordStatistics(database(), projectId, Date.now());
    expect(await wordsOf(database(), projectId)).toEqual(['annsword', 'tea']);
    await createErase({ database: database(), clock: systemClock })({ projectId, subject: 'ann', askedBy: 'key:x' });
    expect(await wordsOf(database(), projectId)).toEqual(['tea']);
  });

  test('counts words in memories and in conversations separately', async () => {
    const projectId = await fill(database());
    await record(
      database(),
      Array.from({ length: 20 }, (_, index) =>
        settledCall({ projectId, body: { messages: [{ role: 'user', content: `coffee and tea ${index}` }] }, answer: 'coffee' }),
      ),
    );
    await refreshWordStatistics(database(), projectId, Date.now());
    const rows = await database().query(
      `select word, passages > 600 as "inConversations", memories from memory_words where project_id = $1::uuid and word in ('coffe', 'tea') order by 1`,
      [projectId],
    );
    expect(rows).toEqual([
      { word: 'coffe', inConversations: false, memories: 0 },
      { word: 'tea', inConversations: true, memories: 600 },
    ]);
  });

  test("doesn't recount words if the erased subject has no texts", async () => {
    const projectId = await fill(database());
    await refreshWordStatistics(database(), projectId, Date.now());
    await database().query(`update memory_words set passages = 7 where project_id = $1::uuid`, [projectId]);
    await createErase({ database: database(), clock: systemClock })({ projectId, subject: 'nobody', askedBy: 'key:x' });
    expect(await database().query('select passages from memory_words where project_id = $1::uuid', [projectId])).toEqual([
      { passages: 7 },
      { passages: 7 },
    ]);
  });

  test("lets two processes count a project's words at the same time", async () => {
    // PGlite runs the transactions one after the other.
    if (database().kind === 'embedded') return;
    const projectId = await fill(database());
    const collecting: Promise<void>[] = [];
    await database().transaction(async (tx) => {
      await tx.query('select 1 from memory_embeddings where project_id = $1::uuid for update', [projectId]);
      for (const count of [1, 2]) {
        const collected = refreshWordStatistics(database(), projectId, Date.now());
        collected.catch(() => {}); // Awaited below.
        collecting.push(collected);
        await waiting(database(), count);
      }
    });
    await Promise.all(collecting);
    expect(await wordsOf(database(), projectId)).toEqual(['annsword', 'tea']);
  });

  test('leaves out the words of a subject that is erased during the count', async () => {
    // PGlite runs the transactions one after the other.
    if (database().kind === 'embedded') return;
    const projectId = await fill(database());
    let counting: Promise<unknown> = Promise.resolve();
    let erasing: Promise<unknown> = Promise.resolve();
    await database().transaction(async (tx) => {
      // Inserted, but not committed yet.
      await tx.query('select 1 from memory_embeddings where project_id = $1::uuid for update', [projectId]);
      counting = refreshWordStatistics(database(), projectId, Date.now());
      counting.catch(() => {}); // Awaited below.
      await waiting(database(), 1);
      erasing = createErase({ database: database(), clock: systemClock })({ projectId, subject: 'ann', askedBy: 'key:x' });
      erasing.catch(() => {});
      await waiting(database(), 2);
    });
    await Promise.all([counting, erasing]);
    expect(await wordsOf(database(), projectId)).toEqual(['tea']);
  });
});

async function waiting(database: Database, count: number): Promise<void> {
  await eventually(async () => {
    const sessions = await database.query(`select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`);
    expect(sessions.length).toBeGreaterThanOrEqual(count);
  });
}

describeDatabases('vectors of passages', (database) => {
  test('limits the number of characters per embedding request', async () => {
    const projectId = await createProject(database());
    await database().query(
      `with items as (
         insert into memory_items (id, project_id, text, kind, importance, origin, author, words_sha256)
         select gen_random_uuid(), $1::uuid, repeat('x', n * 100), 'fact', 3, 'agent', 'key:x', '' from generate_series(31, 40) n
         returning id, text)
       insert into memory_passages (project_id, item_id, kind, text, lexemes)
       select $1::uuid, id, 'fact', text, to_tsvector('simple', text) from items order by length(text)`,
      [projectId],
    );
    await database().query('insert into memory_embeddings (project_id, run, active) values ($1::uuid, 1, true)', [projectId]);
    const requests: number[][] = [];
    const embedPassages = createPassageEmbedder({
      database: database(),
      clock: systemClock,
      getModel: async () => 'model',
      embed: async (_project, texts) => {
        requests.push(texts.map(({ length }) => length));
        return { model: 'model', vectors: texts.map(() => [1, 0]) };
      },
      isTextRejected: () => false,
    });
    expect(await embedPassages(projectId, 1, new AbortController().signal)).toEqual({ kind: 'done', passages: 10 });
    expect(requests).toEqual([
      [3_100, 3_200],
      [3_300, 3_400],
      [3_500, 3_600],
      [3_700, 3_800],
      [3_900, 4_000],
    ]);
  });

  test('starts another embedding run if a model becomes available just as a run ends', async () => {
    const projectId = await createProject(database());
    await database().query('insert into memory_embeddings (project_id, run, active) values ($1::uuid, 1, true)', [projectId]);
    const models = [null, 'model'];
    const embedPassages = createPassageEmbedder({
      database: database(),
      clock: systemClock,
      getModel: async () => models.shift() ?? null,
      embed: () => Promise.reject(new Error('no text is stored')),
      isTextRejected: () => false,
    });
    expect(await embedPassages(projectId, 1, new AbortController().signal)).toMatchObject({ reason: 'no_route' });
    const runs = await database().query('select run, active from memory_embeddings where project_id = $1::uuid', [projectId]);
    expect(runs).toEqual([{ run: 2, active: true }]);
    const entries = await database().query(`select 1 from outbox where workflow_id = $1::text`, [`embedding/${projectId}/2`]);
    expect(entries).toHaveLength(1);
  });
});
