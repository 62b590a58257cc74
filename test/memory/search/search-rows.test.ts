/**
 * Tests how many rows a search reads in a large project. This has to depend on what the search can return, and not on
 * the size of the project.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import pg from 'pg';
import { explainAll } from '../../../scripts/scale/plans.js';
import { refreshWordStatistics } from '../../../src/memory/indexing/word-statistics.ts';
import { type SearchVariant, searchStatement } from '../../../src/memory/search/search-query.ts';
import { lexemesSql } from '../../../src/memory/text/lexemes.ts';
import { createTestDatabase, describePostgres, openTestDatabase } from '../../support/postgres.ts';
import { createProject, record, settledCall } from '../calls.ts';

describePostgres('the number of rows that a memory search reads', () => {
  const memories = 20_000;
  let close = async (): Promise<void> => {};
  let client = new pg.Client();
  let projectId = '';

  beforeAll(async () => {
    const { url, drop } = await createTestDatabase();
    const database = openTestDatabase(url, 1);
    client = new pg.Client({ connectionString: url });
    await client.connect();
    close = async () => {
      await client.end();
      await database.close();
      await drop();
    };
    projectId = await createProject(database);
    // All but 100 memories belong to one of 4,000 subjects. Every twentieth memory has the same rare words.
    await client.query(
      `with items as (
         insert into memory_items (id, project_id, subject, text, kind, importance, origin, author, words_sha256)
         select gen_random_uuid(), $1::uuid, case when n > 100 then 'user-' || n % 4000 end,
                'statement ' || case when n % 20 = 0 then 'of green tea' else 'word' || n % 30 end, 'fact', 3, 'agent', 'key:a', ''
           from generate_series(1, ${memories}) n
         returning id, subject, text)
       insert into memory_passages (project_id, subject, item_id, kind, text, lexemes, embedding, embedding_dims, embedding_model)
       select $1::uuid, subject, id, 'fact', text, ${lexemesSql('text')}, array[random(), random(), random()]::vector::halfvec, 3, 'embed' from items`,
      [projectId],
    );
    await record(database, [settledCall({ projectId, body: { messages: [{ role: 'user', content: 'green tea' }] }, answer: 'word7' })]);
    await client.query(
      `insert into memory_embeddings (project_id, model) values ($1::uuid, 'embed') on conflict (project_id) do update set model = excluded.model`,
      [projectId],
    );
    await refreshWordStatistics(database, projectId, Date.now());
    await client.query('vacuum analyze');
  });
  afterAll(() => close());

  const readBy = async (variant: Omit<SearchVariant, 'recalledOnly'>, subject: string | null): Promise<number> => {
    const text = searchStatement({ ...variant, recalledOnly: true });
    const values = [projectId, subject, 'green\ntea\nword7', '10', '0', null, '{}', '{}', ...(variant.dims ? ['[1,1,1]', 'embed'] : [])];
    const plans = await explainAll(client, [{ text, values, settings: [] }]);
    expect(plans.map(({ error, scans }) => ({ error, scans }))).toEqual([{ error: undefined, scans: [] }]);
    return plans[0]?.rows ?? Number.POSITIVE_INFINITY;
  };

  test('reads few rows when it searches memories of one end user and of the whole project', async () => {
    expect(await readBy({ of: 'memories', dims: null, hasSubject: true }, 'user-40')).toBeLessThan(1_000);
    expect(await readBy({ of: 'memories', dims: 3, hasSubject: true }, 'user-40')).toBeLessThan(1_000);
  });

  test('reads few rows when it searches memories of the whole project', async () => {
    expect(await readBy({ of: 'memories', dims: null, hasSubject: false }, null)).toBeLessThan(1_500);
  });

  test("doesn't read memories if it searches only conversations", async () => {
    expect(await readBy({ of: 'episodes', dims: null, hasSubject: false }, null)).toBeLessThan(300);
  });
});
