/** Tests ratings of memories that were recalled into a call, and how they change the order of memories. */
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { systemClock } from '../../src/core/time.ts';
import { createItems } from '../../src/memory/items/items.ts';
import type { TestGateway } from '../support/gateway.ts';
import { jsonOf, shareGateway } from '../support/gateway.ts';
import { providersYaml } from './dialects-gateway.ts';
import { projectLender } from './inference-routes.ts';
import { expectCode, expectJson, getTexts, type ItemJson, type RouteResponse, saveItem, search, send } from './memory-routes.ts';

const yaml = (vendorUrl: string, deadUrl: string) => `
${providersYaml(vendorUrl, deadUrl)}
models: { one/echo: { input: 1, output: 2 } }
tiers: { standard: [one/echo] }
memory: { recall_deadline_ms: 20000 }
`;

const lent = shareGateway({ database: 'any', yaml });
const lend = projectLender(lent, 'rated');
const question = 'Which tea do guests get in the morning, and where is it served?';

interface Recalled {
  readonly callId: string;
  readonly ids: readonly string[];
}

/** Makes a call with recall, and returns its id and the memories. */
async function recallOnce(gateway: TestGateway, subject?: string): Promise<Recalled> {
  const headers = { 'x-gateway-memory': 'recall', ...(subject !== undefined && { 'x-gateway-memory-subject': subject }) };
  const response = await gateway.call(
    '/v1/chat/completions',
    { model: 'one/echo', messages: [{ role: 'user', content: question }] },
    headers,
  );
  await response.text();
  return {
    callId: response.headers.get('x-gateway-call-id') ?? '',
    ids: response.headers.get('x-gateway-memory-recalled')?.split(',') ?? [],
  };
}

const rate = (gateway: Pick<TestGateway, 'url' | 'key'>, id: string, body: object): Promise<RouteResponse> =>
  send(gateway, 'POST', `/items/${id}/rating`, body);

/** Saves two memories that match the question equally well, of which search returns the newer one first. */
async function saveTwo(gateway: TestGateway): Promise<{ older: ItemJson; newer: ItemJson }> {
  const older = await saveItem(gateway, { text: 'Oolong tea is served in the morning' });
  return { older, newer: await saveItem(gateway, { text: 'Sencha tea is served in the morning' }) };
}

const addKey = async (gateway: TestGateway, name: string): Promise<Pick<TestGateway, 'url' | 'key'>> => {
  const { key } = await jsonOf<{ key: string }>(gateway.admin('POST', `/provision/teams/${gateway.project}/keys`, { name }));
  return { url: gateway.url, key };
};

const readItem = async (gateway: TestGateway, id: string, query = question): Promise<ItemJson | undefined> =>
  (await search(gateway, { query })).memories.find(({ item }) => item.id === id)?.item;

async function confirm(gateway: TestGateway, itemId: string): Promise<void> {
  const [project] = await gateway.database.query<{ id: string }>('select id from projects where slug = $1::text', [gateway.project]);
  const items = createItems({ database: gateway.database, clock: systemClock });
  await items.confirm(project?.id ?? '', itemId, { origin: 'person', author: `person:${randomUUID()}` });
}

describe('rating the memories that a call recalled', () => {
  test('rates several memories in one request and counts only the latest rating per key', async () => {
    const gateway = await lend();
    const { older, newer } = await saveTwo(gateway);
    const { callId } = await recallOnce(gateway);
    const body = { rating: 'useful', call_id: callId, memories: [{ id: newer.id, rating: 'wrong' }] };
    for (let sent = 0; sent < 3; sent += 1)
      expect(await expectJson(rate(gateway, older.id, body), 200)).toMatchObject({ id: older.id, ratings: { useful: 1, wrong: 0 } });
    expect(await readItem(gateway, newer.id)).toMatchObject({ ratings: { useful: 0, wrong: 1 }, in_recall: true });

    // The last rating of the key replaces its earlier one, also if that didn't name a call.
    await expectJson(rate(gateway, newer.id, { rating: 'useful', call_id: callId }), 200);
    expect(await readItem(gateway, newer.id)).toMatchObject({ ratings: { useful: 1, wrong: 0 } });
    await expectJson(rate(gateway, newer.id, { rating: 'wrong' }), 200);
    await expectJson(rate(gateway, newer.id, { rating: 'useful', call_id: callId.toUpperCase() }), 200);
    expect(await readItem(gateway, newer.id)).toMatchObject({ ratings: { useful: 2, wrong: 0 } });
  });

  test('stops recalling a memory after two keys rate it wrong, even if one of them changes its rating later', async () => {
    const gateway = await lend();
    const { older } = await saveTwo(gateway);
    const other = await addKey(gateway, 'other');
    const { callId } = await recallOnce(gateway);
    await expectJson(rate(gateway, older.id, { rating: 'wrong', call_id: callId }), 200);
    expect(await expectJson(rate(other, older.id, { rating: 'wrong', call_id: callId }), 200)).toMatchObject({ in_recall: false });
    expect((await recallOnce(gateway)).ids).not.toContain(older.id);
    expect(await expectJson(rate(other, older.id, { rating: 'useful', call_id: callId }), 200)).toMatchObject({
      ...{ in_recall: false, ratings: { useful: 1, wrong: 2 } },
    });
    expect(await expectJson(rate(gateway, older.id, { rating: 'useful', call_id: callId }), 200)).toMatchObject({
      ...{ in_recall: false, ratings: { useful: 2, wrong: 2 } },
    });
    expect((await recallOnce(gateway)).ids).not.toContain(older.id);
  });

  test("returns 404 for memories that the call didn't recall, without storing a rating", async () => {
    const [gateway, theirs] = [await lend(), await lend()];
    const { older, newer } = await saveTwo(gateway);
    const foreign = await saveItem(theirs, { text: 'Assam tea is served in the morning' });
    const { callId } = await recallOnce(gateway, 'ada');
    const ofBob = await saveItem(gateway, { text: 'Bob wants tea in the morning', subject: 'bob' });
    const later = await saveItem(gateway, { text: 'Darjeeling tea is served in the morning' });
    const theirCall = await recallOnce(theirs);
    await expectJson(rate(theirs, foreign.id, { rating: 'useful', call_id: theirCall.callId }), 200);

    const wrong = { rating: 'wrong', call_id: callId };
    const refused = [
      ...[ofBob.id, later.id, foreign.id, randomUUID()].map((id) =>
        rate(gateway, older.id, { ...wrong, memories: [{ id, rating: 'wrong' }] }),
      ),
      ...[ofBob.id, later.id, foreign.id, randomUUID()].map((id) => rate(gateway, id, wrong)),
      rate(gateway, older.id, { ...wrong, call_id: theirCall.callId }),
      rate(gateway, older.id, { ...wrong, call_id: randomUUID() }),
      rate(theirs, older.id, wrong),
      rate(theirs, foreign.id, wrong),
    ];
    const messages = new Set<string>();
    for (const response of refused) messages.add(await expectCode(response, 404, 'not_found'));
    expect(messages.size).toBe(1);
    for (const { id } of [older, newer, later]) expect(await readItem(gateway, id)).toMatchObject({ ratings: { useful: 0, wrong: 0 } });
  });

  test('skips a memory that was closed after the call when several memories are rated together', async () => {
    const gateway = await lend();
    const { older, newer } = await saveTwo(gateway);
    const { callId } = await recallOnce(gateway);
    await expectJson(send(gateway, 'DELETE', `/items/${newer.id}`), 200);
    const body = { rating: 'useful', call_id: callId, memories: [{ id: newer.id, rating: 'wrong' }] };
    expect(await expectJson(rate(gateway, older.id, body), 200)).toMatchObject({ ratings: { useful: 1, wrong: 0 } });
    await expectCode(rate(gateway, newer.id, { rating: 'useful', call_id: callId }), 404, 'not_found');
  });

  test.each<[string, object]>([
    ['memories without a call', { memories: [{ id: randomUUID(), rating: 'wrong' }] }],
    ['a call id that is no UUID', { call_id: 'x' }],
    ['an unknown rating of another memory', { call_id: randomUUID(), memories: [{ id: randomUUID(), rating: 'good' }] }],
    ['101 memories', { call_id: randomUUID(), memories: Array.from({ length: 101 }, () => ({ id: randomUUID(), rating: 'wrong' })) }],
  ])('returns 400 for %s', async (_title, more) => {
    await expectCode(rate(lent(), randomUUID(), { rating: 'wrong', ...more }), 400, 'bad_request');
  });
});

describe('how ratings affect recall', () => {
  const order = async (gateway: TestGateway, subject?: string) => (await search(gateway, { query: question, subject })).memories;

  test("changes a memory's score by 5 % if one key rates it, and by more if several keys do", async () => {
    const gateway = await lend();
    const { older, newer } = await saveTwo(gateway);
    const plain = await order(gateway);
    expect(plain.map(({ item }) => item.id)).toEqual([newer.id, older.id]);
    const [{ score = 0 } = {}] = plain;
    for (let sent = 0; sent < 4; sent += 1) await expectJson(rate(gateway, older.id, { rating: 'useful' }), 200);
    const [first, second] = await order(gateway);
    expect([first?.item.id, second?.score]).toEqual([older.id, score]);
    expect((first?.score ?? 0) / score).toBeCloseTo(1.05, 3);

    for (const name of ['a', 'b', 'c']) await expectJson(rate(await addKey(gateway, name), older.id, { rating: 'useful' }), 200);
    expect(((await order(gateway))[0]?.score ?? 0) / score).toBeCloseTo(1.08, 3);
    await expectJson(rate(gateway, newer.id, { rating: 'wrong' }), 200);
    expect(((await order(gateway))[1]?.score ?? 0) / score).toBeCloseTo(0.95, 3);
  });

  test('applies ratings only to the end user of the rated call and deletes them when this user is erased', async () => {
    const gateway = await lend();
    const { older, newer } = await saveTwo(gateway);
    const { callId } = await recallOnce(gateway, 'ada');
    await expectJson(rate(gateway, older.id, { rating: 'useful', call_id: callId }), 200);
    const idsFor = async (subject?: string) => (await order(gateway, subject)).map(({ item }) => item.id);
    expect([await idsFor('ada'), await idsFor('bob'), await idsFor()]).toEqual([
      [older.id, newer.id],
      [newer.id, older.id],
      [newer.id, older.id],
    ]);
    await expectJson(send(gateway, 'DELETE', '/subjects/ada'), 200);
    expect(await idsFor('ada')).toEqual([newer.id, older.id]);
    const votes = await gateway.database.query('select 1 from memory_votes where item_id = $1::uuid', [older.id]);
    expect(votes).toEqual([]);
    expect(await readItem(gateway, older.id)).toMatchObject({ ratings: { useful: 0, wrong: 0 } });
    await expectCode(rate(gateway, older.id, { rating: 'useful', call_id: callId }), 404, 'not_found');
  });

  test('keeps a memory out of recall after an erasure has deleted its wrong ratings, until a person confirms it', async () => {
    const gateway = await lend();
    const { older } = await saveTwo(gateway);
    const other = await addKey(gateway, 'other');
    const { callId } = await recallOnce(gateway, 'ada');
    for (const rater of [gateway, other]) await expectJson(rate(rater, older.id, { rating: 'wrong', call_id: callId }), 200);
    await expectJson(send(gateway, 'DELETE', '/subjects/ada'), 200);
    expect(await readItem(gateway, older.id)).toMatchObject({ in_recall: false, ratings: { useful: 0, wrong: 2 } });
    await confirm(gateway, older.id);
    expect(await readItem(gateway, older.id)).toMatchObject({ in_recall: true });
    await expectJson(rate(gateway, older.id, { rating: 'wrong' }), 200);
    expect(await readItem(gateway, older.id)).toMatchObject({ in_recall: true });
  });

  test("shows in a dry run how ratings have changed a memory's score", async () => {
    const gateway = await lend();
    const { older } = await saveTwo(gateway);
    await expectJson(rate(gateway, older.id, { rating: 'wrong' }), 200);
    const { memories } = await expectJson<{ memories: { item: ItemJson; score: number; why: { ratings: number } }[] }>(
      send(gateway, 'POST', '/recall', { text: question, dry_run: true }),
      200,
    );
    const rated = memories.find(({ item }) => item.id === older.id);
    expect((rated?.why.ratings ?? 0) / ((rated?.score ?? 0) - (rated?.why.ratings ?? 0))).toBeCloseTo(-0.05, 2);
  });

  test("discards a memory's wrong ratings when a person confirms it", async () => {
    const gateway = await lend();
    const { newer } = await saveTwo(gateway);
    for (let sent = 0; sent < 2; sent += 1) await expectJson(rate(gateway, newer.id, { rating: 'wrong' }), 200);
    await confirm(gateway, newer.id);
    expect(getTexts(await search(gateway, { query: question }))[0]).toBe(newer.text);
  });
});
