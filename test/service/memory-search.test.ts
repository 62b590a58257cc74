/** Tests search by text, and by vectors that come from the project's own routes. */
import { describe, expect, it } from '@jest/globals';
import { lockProject } from '../../src/db/locks.ts';
import type { TestGateway } from '../support/gateway.ts';
import { callsOf, defaultYaml, eventually, jsonOf, shareGateway } from '../support/gateway.ts';
import { describePostgres } from '../support/postgres.ts';
import { onAnyDatabase } from './both-databases.ts';
import { projectLender } from './inference-routes.ts';
import { getTexts, saveItem, search } from './memory-routes.ts';

/**
 * The scripted vendor derives vectors from the terms of a text, so texts with other forms of the same terms are close
 * to each other.
 */
const yaml = (vendorUrl: string, deadUrl: string): string =>
  defaultYaml(vendorUrl, deadUrl).replace('tiers:\n', 'tiers:\n  embed: [one/embedder, two/embedder]\n');

async function untilEmbedded({ database, project }: TestGateway, model: string): Promise<void> {
  await eventually(async () => {
    const rows = await database.query<{ model: string | null; dims: number | null; active: boolean; runModel: string | null }>(
      `select passage.embedding_model as model, passage.embedding_dims as dims, run.active, run.model as "runModel"
         from memory_passages passage
         join projects on projects.id = passage.project_id and projects.slug = $1::text
         join memory_embeddings run on run.project_id = passage.project_id`,
      [project],
    );
    expect(rows.length).toBeGreaterThan(0);
    for (const row of rows) expect(row).toEqual({ model, dims: 256, active: false, runModel: model });
  });
}

describe('memory search with Temporal', () => {
  let isLocalEmbedderReady = false;
  const lent = shareGateway({
    database: 'any',
    temporal: true,
    isLocalEmbedderReady: () => isLocalEmbedderReady,
    yaml: (vendorUrl, deadUrl) =>
      yaml(vendorUrl, deadUrl).replace('tiers:\n', 'tiers:\n  local: [local/bge-small-en-v1.5, local/multilingual-e5-small-q4]\n'),
  });
  const lendProject = projectLender(lent, 'vectors');

  it('embeds memories again after the embedding model changes', async () => {
    const gateway = await lendProject();
    lent().app.startDurable();
    await saveItem(gateway, { text: 'The deployment happens on Thursday evening' });
    await saveItem(gateway, { text: 'Coffee beans are bought in Bergen' });
    const chat = { model: 'one/echo', messages: [{ role: 'user', content: 'Where is the red bicycle parked?' }] };
    expect((await gateway.call('/v1/chat/completions', chat)).status).toBe(200);
    await untilEmbedded(gateway, 'embedder');
    const result = await search(gateway, { query: 'Thursday deployment' });
    expect(result.vector).toBe(true);
    expect(result.memories[0]).toMatchObject({
      item: { text: 'The deployment happens on Thursday evening' },
      matched_by: ['vector', 'text'],
    });
    expect((await search(gateway, { query: 'bicycle', include: ['episodes'] })).episodes[0]?.snippet).toContain('red bicycle');
    // The conversation may have been stored after the check above.
    await untilEmbedded(gateway, 'embedder');

    const { by_source: sources } = await jsonOf<{ by_source: readonly { source: string; calls: number }[] }>(gateway.call('/usage/me'));
    expect(sources.find(({ source }) => source === 'gateway-memory')?.calls).toBeGreaterThanOrEqual(3);
    const byKey = await gateway.database.query<{ prefix: string }>(
      `select distinct key_prefix as prefix from calls where source = 'gateway-memory'`,
    );
    expect(byKey.map(({ prefix }) => prefix).sort()).toEqual([gateway.key.split('-')[2], 'gateway'].sort());

    await gateway.admin('PUT', `/provision/teams/${gateway.project}`, { tiers: { 'memory-embed': ['two/other'] } });
    expect((await search(gateway, { query: 'Thursday' })).memories[0]).toMatchObject({ matched_by: ['text'] });
    await untilEmbedded(gateway, 'other');
    expect((await search(gateway, { query: 'Thursday' })).memories[0]).toMatchObject({ matched_by: ['vector', 'text'] });
  });

  it('searches memories by text until the local embedder is ready', async () => {
    const gateway = await lendProject();
    gateway.app.startDurable();
    await gateway.admin('PUT', `/provision/teams/${gateway.project}`, { tiers: { embed: ['local/bge-small-en-v1.5'] } });
    await saveItem(gateway, { text: 'The ferry leaves at noon' });
    expect(await search(gateway, { query: 'ferry' })).toMatchObject({ vector: false, memories: [{ matched_by: ['text'] }] });
    expect(await callsOf(gateway)).toEqual([]);

    isLocalEmbedderReady = true;
    gateway.app.takeUpEmbeddings();
    await untilEmbedded(gateway, 'bge-small-en-v1.5');
    const found = await search(gateway, { query: 'ferry' });
    expect(found).toMatchObject({ vector: true, memories: [{ matched_by: ['vector', 'text'] }] });
    const requests = gateway.vendor.requests().filter(({ headers }) => headers.authorization === 'Bearer key-local');
    expect(requests.flatMap(({ body }) => JSON.parse(body.toString()).input)).toEqual([
      'The ferry leaves at noon',
      'Represent this sentence for searching relevant passages: ferry',
    ]);
  });

  it("adds the multilingual model's prefixes to queries and passages before embedding them", async () => {
    isLocalEmbedderReady = true;
    const gateway = await lendProject();
    gateway.app.startDurable();
    await gateway.admin('PUT', `/provision/teams/${gateway.project}`, { tiers: { embed: ['local/multilingual-e5-small-q4'] } });
    await saveItem(gateway, { text: 'Die Fähre fährt mittags ab' });
    await untilEmbedded(gateway, 'multilingual-e5-small-q4');
    await search(gateway, { query: 'Fähre' });
    const inputs = gateway.vendor
      .requests()
      .filter(({ headers }) => headers.authorization === 'Bearer key-local')
      .flatMap(({ body }) => JSON.parse(body.toString()).input);
    expect(inputs.slice(-2)).toEqual(['passage: Die Fähre fährt mittags ab', 'query: Fähre']);
  });
});

onAnyDatabase('memory search without Temporal', (database) => {
  const lent = shareGateway({ database, yaml });
  const lendProject = projectLender(lent, 'terms');

  it('finds memories by text before they have been embedded', async () => {
    const gateway = await lendProject();
    await saveItem(gateway, { text: 'The deployment happens on Thursday evening' });
    const result = await search(gateway, { query: 'when is the deployment' });
    expect(result).toMatchObject({ vector: true, memories: [{ matched_by: ['text'] }] });
    const [row] = await gateway.database.query(
      `select count(*)::integer as count from outbox join projects on projects.id::text = outbox.input ->> 'project_id'
        where workflow = 'embedMemory' and slug = $1::text`,
      [gateway.project],
    );
    expect(row).toEqual({ count: 1 });
  });

  it.each([
    ['fails', 'one/fail-500'],
    ['rejects the request', 'one/refuse-422'],
    ['returns garbage', 'one/garbage'],
    ['hangs', 'one/hang'],
  ])('falls back to text search if the embedding vendor %s', async (_title, model) => {
    const gateway = await lendProject();
    await gateway.admin('PUT', `/provision/teams/${gateway.project}`, { tiers: { embed: [model] } });
    await saveItem(gateway, { text: 'The deployment happens on Thursday evening' });
    expect(await search(gateway, { query: 'deployment' })).toMatchObject({ vector: false, memories: [{ matched_by: ['text'] }] });
  });

  it('returns `vector: false` if there is no route for embeddings', async () => {
    const gateway = await lendProject();
    await gateway.admin('PUT', `/provision/teams/${gateway.project}`, { tiers: { embed: [] } });
    await saveItem(gateway, { text: 'The deployment happens on Thursday evening' });
    expect(await search(gateway, { query: 'deployment' })).toMatchObject({ vector: false, memories: [{ matched_by: ['text'] }] });
    expect(await callsOf(gateway)).toEqual([]);
  });

  it("doesn't apply a key's model allow-list to memory embeddings", async () => {
    const gateway = await lendProject();
    const issued = await gateway.admin('POST', `/provision/teams/${gateway.project}/keys`, { name: 'narrow', models: ['one/echo'] });
    const { key } = await jsonOf<{ key: string }>(issued);
    await saveItem({ ...gateway, key }, { text: 'Narrow keys remember too' });
    expect((await search({ ...gateway, key }, { query: 'narrow' })).vector).toBe(true);
  });

  it('searches memories in several languages and accepts special characters in the query', async () => {
    const gateway = await lendProject();
    await saveItem(gateway, { text: 'Prefers trains to planes when travelling' });
    await saveItem(gateway, { text: 'Ærø er en ø i Danmark' });
    await saveItem(gateway, { text: 'The invoice number is AB-2231' });
    expect(getTexts(await search(gateway, { query: 'What does the user prefer for a travel?' }))).toEqual([
      'Prefers trains to planes when travelling',
    ]);
    expect(getTexts(await search(gateway, { query: 'hvor ligger ærø' }))).toEqual(['Ærø er en ø i Danmark']);
    expect(getTexts(await search(gateway, { query: 'AB-2231' }))).toEqual(['The invoice number is AB-2231']);
    const { memories } = await search(gateway, { query: 'trains invoice' });
    for (const { score } of memories) expect(score > 0 && score <= 1).toBe(true);
    for (const query of [`'; drop table memory_items; --`, '\\ & | ! <-> :* (', '%_', '???', "o'clock 'quoted'", '\\x00', 'the'])
      expect(Array.isArray((await search(gateway, { query })).memories)).toBe(true);
  });

  it("finds only the subject's own memories and project-wide ones", async () => {
    const gateway = await lendProject();
    const shared = { text: 'tea is served at four', kind: 'event' };
    await saveItem(gateway, shared);
    await saveItem(gateway, { text: 'ann drinks tea', subject: 'ann', kind: 'preference' });
    await saveItem(gateway, { text: 'bob drinks tea', subject: 'bob', kind: 'preference' });
    const find = async (body: object): Promise<string[]> => getTexts(await search(gateway, { query: 'tea', ...body })).sort();
    expect(await find({ subject: 'ann' })).toEqual(['ann drinks tea', 'tea is served at four']);
    expect(await find({ subject: 'nobody' })).toEqual(['tea is served at four']);
    const unset = { subject: null, limit: null, kinds: null, include: null, min_score: null };
    for (const body of [{}, unset]) expect(await find(body)).toEqual(['ann drinks tea', 'bob drinks tea', 'tea is served at four']);
    expect(await find({ kinds: ['preference'] })).toEqual(['ann drinks tea', 'bob drinks tea']);
    expect(await find({ kinds: ['preference'], subject: 'bob' })).toEqual(['bob drinks tea']);
    expect(await find({ limit: 1 })).toHaveLength(1);
    expect(await find({ min_score: 1 })).toEqual([]);
    expect(await search(gateway, { query: 'tea', include: ['episodes'] })).toMatchObject({ memories: [], episodes: [] });
    const chat = { model: 'one/echo', user: 'ann', messages: [{ role: 'user', content: 'Is there green tea left?' }] };
    expect((await gateway.call('/v1/chat/completions', chat)).status).toBe(200);
    // It is found as soon as it is stored, before it is closed.
    for (const [subject, count] of [
      ['ann', 1],
      ['bob', 0],
      [null, 1],
    ] as const)
      expect((await search(gateway, { query: 'green tea', subject, include: ['episodes'] })).episodes).toHaveLength(count);
    const both = await search(gateway, { query: 'green tea' });
    expect(both.episodes).toMatchObject([{ title: null, subject: 'ann', snippet: expect.stringContaining('green tea left') }]);
    expect(both.memories).toHaveLength(3);
  });
});

describePostgres('the connections to PostgreSQL', () => {
  const lent = shareGateway({ database: 'server', yaml });

  it("doesn't let writes that wait for one project's lock take up all database connections", async () => {
    const [busy, other] = [await lent().withProject('busy'), await lent().withProject('other')];
    const project = await lent().app.projects.findBySlug('busy');
    const projectId = project?.id ?? '';
    let saved: Promise<unknown> = Promise.resolve();
    await lent().database.transaction(async (tx) => {
      await lockProject(tx, projectId, 'exclusive');
      // More than the number of connections in the pool.
      saved = Promise.all(Array.from({ length: 20 }, (_, index) => saveItem(busy, { text: `Fact ${index} is stored later` })));
      const countWaiting = async (): Promise<unknown> =>
        (
          await tx.query(`select count(*)::integer as count from pg_locks join pg_database on pg_database.oid = pg_locks.database
                           where locktype = 'advisory' and not granted and datname = current_database()`)
        )[0];
      await eventually(async () => expect(await countWaiting()).toEqual({ count: 4 }));
      await saveItem(other, { text: 'This fact is stored at once' });
      expect(getTexts(await search(other, { query: 'fact' }))).toEqual(['This fact is stored at once']);
      expect(await countWaiting()).toEqual({ count: 4 });
    });
    await saved;
    expect(getTexts(await search(busy, { query: 'fact', limit: 50 }))).toHaveLength(20);
  });
});
