/** Tests facts and pages from a consolidation, as returned by the graph and wake-up routes. */
import { expect, it } from '@jest/globals';
import { newId } from '../../src/core/ids.ts';
import { systemClock } from '../../src/core/time.ts';
import { storeConsolidation } from '../../src/memory/learning/store-consolidation.ts';
import type { TestGateway } from '../support/gateway.ts';
import { shareGateway } from '../support/gateway.ts';
import { onAnyDatabase } from './both-databases.ts';
import { projectLender } from './inference-routes.ts';
import { expectJson, saveItem, send } from './memory-routes.ts';

interface Fact {
  readonly id: string;
  readonly fact: string;
  readonly relation: string;
  readonly subject: string | null;
  readonly source: { readonly id: string; readonly name: string };
}

type FactParts = readonly [source: string, relation: string, target: string, fact: string];

interface Learned {
  readonly subject?: string | null;
  readonly facts?: readonly FactParts[];
  /** The fact that the only one in `facts` supersedes. */
  readonly replaces?: string | null;
  readonly page?: string | null;
}

/** Stores one memory with all of these facts, like a batch would. Returns the memory's id. */
async function learn(gateway: TestGateway, { subject = null, facts = [], replaces = null, page = null }: Learned): Promise<string> {
  const { id: itemId } = await saveItem(gateway, { text: `Something was said of ${facts.length}`, subject });
  const [row] = await gateway.database.query<{ projectId: string }>(
    `select project_id as "projectId" from memory_items where id = $1::uuid`,
    [itemId],
  );
  const group = {
    projectId: row?.projectId ?? '',
    subject,
    batchId: newId(Date.now()),
    position: 0,
    focus: null,
    runId: 'run-1',
    state: 'learned',
  } as const;
  const newFacts = facts.map(([source, relation, target, fact]) => ({ itemId, source, relation, target, fact, replaces }));
  const consolidation = { merges: [], facts: newFacts, page };
  await gateway.database.transaction((tx) =>
    storeConsolidation(tx, { group, context: { subject, added: [], known: [], facts: [] }, consolidation, clock: systemClock }),
  );
  return itemId;
}

const find = async (gateway: TestGateway, body?: unknown): Promise<readonly Fact[]> =>
  (await expectJson<{ facts: readonly Fact[] }>(send(gateway, 'POST', '/graph', body), 200)).facts;

onAnyDatabase('the memory graph', (database) => {
  const lent = shareGateway({ database });
  const lendProject = projectLender(lent, 'graph');
  const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/);
  const uuid = expect.stringMatching(/^[0-9a-f-]{36}$/);

  it('returns all facts if the query is empty', async () => {
    const gateway = await lendProject();
    const itemId = await learn(gateway, { facts: [['Ada', 'lives_in', 'Oslo', 'Ada lives in Oslo']] });
    const fact = {
      id: uuid,
      source: { id: uuid, name: 'Ada' },
      relation: 'lives_in',
      target: { id: uuid, name: 'Oslo' },
      fact: 'Ada lives in Oslo',
      subject: null,
      valid_from: time,
      valid_to: null,
      created_at: time,
      item_ids: [itemId],
    };
    for (const body of [undefined, 'null', {}, { query: '', entity: ' ', relation: null, subject: null, limit: null }])
      expect(await find(gateway, body)).toEqual([fact]);
    expect(await find(await lendProject())).toEqual([]);
  });

  it('filters facts by entity, relation, query term and subject', async () => {
    const gateway = await lendProject();
    await learn(gateway, { facts: [['Ada', 'lives_in', 'Oslo', 'Ada has lived in Oslo for years']] });
    await learn(gateway, { facts: [['Oslo', 'is_in', 'Norway', 'Oslo is a town of Norway']] });
    await learn(gateway, { facts: [['user', 'lives_in', 'Bergen', 'The user lives in Bergen']], subject: 'ann' });
    await learn(gateway, { facts: [['user', 'likes', 'tea', 'The user likes tea']], subject: 'bob' });
    const targets = async (body: object): Promise<string[]> => (await find(gateway, body)).map(({ fact }) => fact.split(' ').at(-1) ?? '');
    const rows: readonly (readonly [object, readonly string[]])[] = [
      [{}, ['tea', 'Bergen', 'Norway', 'years']],
      [{ limit: 2 }, ['tea', 'Bergen']],
      [{ entity: 'OSLO' }, ['Norway', 'years']],
      [{ entity: 'Osl' }, []],
      [{ relation: 'Lives_In' }, ['Bergen', 'years']],
      [{ query: 'Who is living in Oslo?' }, ['Bergen', 'Norway', 'years']],
      [{ query: 'what has been liked' }, ['tea']],
      [{ query: 'has' }, ['years']],
      [{ query: 'https://example.org/?a=1&b=2 bergen' }, ['Bergen']],
      [{ query: 'tea or Norway?' }, ['tea', 'Norway']],
      [{ query: '???' }, []],
      [{ subject: 'ann' }, ['Bergen', 'Norway', 'years']],
      [{ subject: 'nobody' }, ['Norway', 'years']],
      [{ subject: 'ann', relation: 'lives_in', entity: 'user', query: 'Bergen' }, ['Bergen']],
      [{ subject: 'bob', relation: 'lives_in', entity: 'user' }, []],
    ];
    for (const [body, expected] of rows) expect([body, await targets(body)]).toEqual([body, expected]);
  });

  it('finds facts by name in any script, regardless of case', async () => {
    const gateway = await lendProject();
    await learn(gateway, { facts: [['Öl', 'fließt_nach', 'Århus', 'Das Öl fließt nach Århus']] });
    await learn(gateway, { facts: [['Анна', 'живёт_в', 'Москва', 'Анна живёт в городе Москва']], subject: 'anna' });
    for (const oil of ['Öl', 'ÖL', 'öl', 'O\u0308l'])
      for (const body of [{ query: oil }, { entity: oil }]) expect(await find(gateway, body)).toMatchObject([{ source: { name: 'Öl' } }]);
    for (const moscow of ['Москва', 'МОСКВА', 'москва'])
      for (const body of [{ query: moscow }, { entity: moscow }])
        expect(await find(gateway, body)).toMatchObject([{ source: { name: 'Анна' } }]);
    expect(await find(gateway, { relation: 'ЖИВЁТ_В' })).toHaveLength(1);
    // In another case and normalization form, it is the same entity and the same fact.
    const [first] = await find(gateway, { entity: 'анна' });
    await learn(gateway, { facts: [['АННА', 'живёт_в', 'МОСКВА', 'Снова']], subject: 'anna' });
    await learn(gateway, { facts: [['АННА', 'любит', 'чай', 'Анна любит чай']], subject: 'anna' });
    const facts = await find(gateway, { entity: 'Анна' });
    expect(facts.map(({ relation, source }) => [relation, source.id])).toEqual([
      ['любит', first?.source.id],
      ['живёт_в', first?.source.id],
    ]);
  });

  it('leaves out facts that have been replaced or have ended', async () => {
    const gateway = await lendProject();
    await learn(gateway, { facts: [['Ada', 'lives_in', 'Oslo', 'Ada lives in Oslo']] });
    const [old] = await find(gateway);
    const moved = await learn(gateway, { facts: [['Ada', 'lives_in', 'Bergen', 'Ada lives in Bergen']], replaces: old?.id ?? null });
    await learn(gateway, { facts: [['Ada', 'visits', 'Paris', 'Ada visits Paris']] });
    await learn(gateway, { facts: [['Ada', 'visits', 'Rome', 'Ada visits Rome']] });
    await gateway.database.query(`update memory_facts set valid_to = now() - interval '1 minute' where fact = 'Ada visits Paris'`);
    await gateway.database.query(`update memory_facts set valid_to = now() + interval '1 day' where fact = 'Ada visits Rome'`);
    expect((await find(gateway)).map(({ fact }) => fact)).toEqual(['Ada visits Rome', 'Ada lives in Bergen']);
    expect((await send(gateway, 'DELETE', `/items/${moved}`)).status).toBe(200);
    expect((await find(gateway, { entity: 'ada' })).map(({ fact }) => fact)).toEqual(['Ada visits Rome']);
  });

  it('returns the knowledge page and the profile on wake-up', async () => {
    const gateway = await lendProject();
    await learn(gateway, { page: 'The shop sells\ntea.' });
    await learn(gateway, { page: 'Ann drinks oolong.', subject: 'ann' });
    await learn(gateway, { page: 'Bob drinks sencha.', subject: 'bob' });
    const wakeUp = (body: object): Promise<{ text: string }> => expectJson(send(gateway, 'POST', '/wake-up', body), 200);
    const page = (text: string) => ({ text, updated_at: time });
    const ofAnn = await wakeUp({ subject: 'ann' });
    expect(ofAnn).toMatchObject({ knowledge_page: page('The shop sells\ntea.'), profile: page('Ann drinks oolong.') });
    expect(ofAnn.text).toContain('Knowledge:\nThe shop sells tea.\nProfile of the user:\nAnn drinks oolong.\n');
    expect(ofAnn.text).not.toContain('sencha');
    const ofAll = await wakeUp({});
    expect(ofAll).toMatchObject({ knowledge_page: page('The shop sells\ntea.'), profile: null });
    expect(ofAll.text).not.toMatch(/oolong|sencha|Profile/);
    await learn(gateway, { page: 'The shop sells coffee.' });
    expect(await wakeUp({ subject: 'carl' })).toMatchObject({ knowledge_page: page('The shop sells coffee.'), profile: null });
  });
});
