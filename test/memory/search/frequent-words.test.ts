/** Tests which memories a search finds by words that many of them contain, in projects with word statistics. */
import { expect, test } from '@jest/globals';
import type { Database } from '../../../src/db/database.ts';
import { refreshWordStatistics } from '../../../src/memory/indexing/word-statistics.ts';
import { createSearch, searchRequestSchema } from '../../../src/memory/search/search.ts';
import { lexemesSql } from '../../../src/memory/text/lexemes.ts';
import { describeAnyDatabase } from '../../db/databases.ts';
import { createProject, record, settledCall } from '../calls.ts';

const memories = 1_200;

/**
 * All memories contain `tea`, and ten of them belong to Ada. The last one is about an `otter`. More than a hundred
 * contain `plum`, and as many contain `kiwi`, but only one of the last contains both.
 */
async function fill(database: Database): Promise<string> {
  const projectId = await createProject(database);
  await database.query(
    `with items as (
       insert into memory_items (id, project_id, subject, text, kind, importance, origin, author, words_sha256, created_at)
       select gen_random_uuid(), $1::uuid, case when n <= 10 then 'ada' end,
              'tea ' || case when n = ${memories} then 'otter' else n::text end
                || case when n = 1197 then ' plum kiwi' when n between 21 and 1195 and n % 11 = 1 then ' plum' when n between 21 and 1195 and n % 11 = 2 then ' kiwi' else '' end,
              case when n = 1 then 'event' else 'fact' end, 3, 'agent', 'key:x', '', '2026-01-01'::timestamptz + n * interval '1 minute'
         from generate_series(1, ${memories}) n
       returning id, subject, text, kind, created_at)
     insert into memory_passages (project_id, subject, item_id, kind, text, lexemes)
     select $1::uuid, subject, id, kind, text, ${lexemesSql('text')} from items order by created_at`,
    [projectId],
  );
  await database.query('insert into memory_embeddings (project_id) values ($1::uuid) on conflict do nothing', [projectId]);
  await record(database, [settledCall({ projectId, body: { messages: [{ role: 'user', content: 'green tea' }] }, answer: 'tea' })]);
  await refreshWordStatistics(database, projectId, Date.now());
  return projectId;
}

describeAnyDatabase('frequent words', (database) => {
  const find = async (projectId: string, request: object) => {
    const options = { projectId, embed: async () => null, embedTimeoutMs: 30_000, queryTimeoutMs: 60_000 };
    const found = await createSearch({ database: database() })(searchRequestSchema.parse(request), options);
    return { memories: found.memories.map(({ item }) => item.text), episodes: found.episodes.length };
  };

  test('finds the newest memories with a frequent word if no memory contains the other words', async () => {
    const projectId = await fill(database());
    const { memories: texts, episodes } = await find(projectId, { query: 'which tea does zzz like', limit: 3 });
    expect(texts).toEqual(['tea otter', 'tea 1199', 'tea 1198']);
    expect(episodes).toBe(1);
  });

  test('finds only the memory with the rare word if the query also has a frequent one', async () => {
    const projectId = await fill(database());
    expect((await find(projectId, { query: 'tea otter' })).memories).toEqual(['tea otter']);
  });

  test("finds the subject's own memories, even if other memories contain the rare word", async () => {
    const projectId = await fill(database());
    const { memories: texts } = await find(projectId, { query: 'tea otter', subject: 'ada', limit: 50 });
    expect(texts[0]).toBe('tea otter');
    expect(new Set(texts.slice(1))).toEqual(new Set(Array.from({ length: 10 }, (_, index) => `tea ${index + 1}`)));
  });

  test("ranks the subject's own memories before others that match equally well", async () => {
    const projectId = await fill(database());
    const { memories: texts } = await find(projectId, { query: 'tea', subject: 'ada', limit: 12 });
    expect(texts).toEqual([...Array.from({ length: 10 }, (_, index) => `tea ${10 - index}`), 'tea otter', 'tea 1199']);
    expect((await find(projectId, { query: 'tea', limit: 2 })).memories).toEqual(['tea otter', 'tea 1199']);
  });

  test('finds the only memory that contains both of two frequent words', async () => {
    const projectId = await fill(database());
    for (const subject of [null, 'ada'])
      expect((await find(projectId, { query: 'plum kiwi', subject })).memories[0]).toBe('tea 1197 plum kiwi');
  });

  test('finds only memories of the requested kinds', async () => {
    const projectId = await fill(database());
    expect((await find(projectId, { query: 'tea', subject: 'ada', kinds: ['event'] })).memories).toEqual(['tea 1']);
  });
});
