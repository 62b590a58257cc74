/**
 * Tests learning end to end. Calls arrive over HTTP, a real Temporal server runs the batches, and the scripted vendor
 * is the memory model.
 */
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { parseDialogues } from '../../scripts/evaluation/dialogues.js';
import { askQuestion, awaitLearned, parseVerdict, projectOf, recordDialogue } from '../../scripts/evaluation/memory-loop.js';
import { createClient } from '../../scripts/evaluation/vendor.js';
import { createTemporal } from '../../src/temporal/client/temporal.ts';
import { adminToken, defaultYaml, eventually, jsonOf, shareGateway, type TestGateway } from '../support/gateway.ts';
import { rawHistory } from '../support/histories.ts';
import { createTestLog, readServerRecord } from '../support/temporal.ts';

const yaml = (vendorUrl: string, deadUrl: string): string =>
  defaultYaml(vendorUrl, deadUrl)
    .replace('tiers:', 'tiers:\n  trivial: [one/echo]')
    .replace('key-one, dialect: chat', '$&, tags: [eu]')
    .replace('memory: {', '$& retry: { first_minutes: 0.02, factor: 2, longest_minutes: 360 },');

interface Batch {
  readonly id: string;
  readonly state: string;
  readonly attempts: number;
  readonly cost: number;
  readonly error: { readonly code: string } | null;
}

describe('learning with Temporal', () => {
  const shared = shareGateway({ database: 'any', temporal: true, yaml });
  beforeAll(async () => {
    const durable = shared().app.startDurable();
    await eventually(async () => expect(durable.state()).toBe('ready'));
  });

  async function lend(slug: string, settings: object = {}): Promise<TestGateway> {
    const gateway = await shared().withProject(slug);
    await gateway.admin('PUT', `/provision/teams/${slug}`, settings);
    await gateway.admin('PUT', `/provision/teams/${slug}/memory`, { batch_of: 2 });
    return gateway;
  }
  async function say(gateway: TestGateway, text: string, subject: string): Promise<string> {
    const body = { model: 'one/echo', messages: [{ role: 'user', content: text }] };
    const response = await gateway.call('/v1/chat/completions', body, { 'x-gateway-memory-subject': subject });
    expect([response.status, await response.text()]).toEqual([200, expect.any(String)]);
    return response.headers.get('x-gateway-call-id') ?? '';
  }
  const batchesOf = async (gateway: TestGateway, state = ''): Promise<readonly Batch[]> =>
    (await jsonOf<{ data: Batch[] }>(gateway.admin('GET', `/provision/teams/${gateway.project}/batches${state && `?state=${state}`}`)))
      .data;
  const untilState = (gateway: TestGateway, state: string): Promise<Batch> =>
    eventually(async () => {
      const [batch] = await batchesOf(gateway, state);
      if (!batch) throw new Error(`no batch is ${state}: ${JSON.stringify(await batchesOf(gateway))}`);
      return batch;
    });
  const memoriesOf = (gateway: TestGateway) =>
    gateway.database.query<{ text: string; subject: string; origin: string }>(
      `select text, subject, origin from memory_items
        where state = 'live' and project_id = (select id from projects where slug = $1::text) order by id`,
      [gateway.project],
    );
  async function historyOf(gateway: TestGateway, id: string): Promise<string> {
    const [row] = await gateway.database.query<{ id: string }>('select id from projects where slug = $1::text', [gateway.project]);
    const temporal = createTemporal({ ...(await readServerRecord(gateway.dataDir)), logger: createTestLog().logger });
    const history = await temporal.client.workflow.getHandle(`learning/${row?.id}/batch/${id}`).fetchHistory();
    await temporal.close();
    return rawHistory(history);
  }

  it('learns memories, facts and a profile from conversations', async () => {
    const gateway = await lend('learns');
    await say(gateway, 'I live in Oslo. What is the weather like?', 'ada');
    const batch = await untilState(gateway, 'done');
    expect(batch).toMatchObject({ kind: 'normal', attempts: 2, error: null, messages: 2, memories: { written: 1 }, facts: 1 });
    expect(await memoriesOf(gateway)).toEqual([{ text: 'I live in Oslo.', subject: 'ada', origin: 'observed' }]);
    expect(await jsonOf(gateway.call('/v1/memory/wake-up', { subject: 'ada' }))).toMatchObject({
      subject_memories: [{ text: 'I live in Oslo.', author: 'gateway-memory', episode_id: expect.any(String) }],
      profile: { text: '- I live in Oslo.' },
    });
    expect(await jsonOf(gateway.call('/v1/memory/graph', { subject: 'ada' }))).toMatchObject({
      facts: [{ relation: 'live_in', target: { name: 'Oslo' } }],
    });
    const usage = await jsonOf<{ by_source: { source: string; cost: number; calls: number }[] }>(gateway.call('/usage/me'));
    const spent = usage.by_source.find(({ source }) => source === 'gateway-memory');
    expect(spent?.calls).toBe(2);
    expect((await untilState(gateway, 'done')).cost).toBeCloseTo(spent?.cost ?? 0, 9);
    const history = await historyOf(gateway, batch.id);
    expect(history).toContain('consolidateGroup');
    expect(history).not.toMatch(/Oslo|weather|\bada\b|You said/);
  });

  it('learns from one conversation immediately on request', async () => {
    const gateway = await lend('remembers');
    await gateway.admin('PUT', '/provision/teams/remembers/memory', { batch_of: 1_000 });
    const call = await gateway.call('/v1/chat/completions', { model: 'one/echo', messages: [{ role: 'user', content: 'I like tea.' }] });
    await call.text();
    const id = await eventually(async () => {
      const [row] = await gateway.database.query<{ id: string }>('select conversation_id as id from call_texts where call_id = $1::uuid', [
        call.headers.get('x-gateway-call-id'),
      ]);
      if (!row) throw new Error('the call is not stored yet');
      return row.id;
    });
    const response = await gateway.call(`/v1/memory/episodes/${id}/remember`, { focus: 'drinks' });
    expect(response.status).toBe(202);
    expect(await response.json()).toEqual({ episode_id: id, batch_id: expect.any(String), status: 'queued', focus: 'drinks' });
    await untilState(gateway, 'done');
    expect(await memoriesOf(gateway)).toMatchObject([{ text: 'I like tea.', subject: null }]);
    expect((await gateway.call(`/v1/memory/episodes/${randomUUID()}/remember`, {})).status).toBe(404);
    expect((await gateway.call('/v1/memory/episodes/7/remember', {})).status).toBe(400);
    expect((await gateway.call(`/v1/memory/episodes/${id}/remember`, { focus: 7 })).status).toBe(400);
    await gateway.admin('PUT', '/provision/teams/remembers/memory', { enabled: false });
    expect((await gateway.call(`/v1/memory/episodes/${id}/remember`, {})).status).toBe(409);
  });

  it('increases the retry delay while the memory model is unavailable', async () => {
    const gateway = await lend('waits', { tiers: { 'memory-extract': ['dead/echo'] } });
    await say(gateway, 'I am called Bob.', 'bob');
    const batch = await eventually(async () => {
      const [found] = await batchesOf(gateway, 'retrying');
      expect(found?.attempts).toBeGreaterThanOrEqual(3);
      return found;
    });
    expect(batch?.error?.code).toBe('upstream_failed');
    await gateway.admin('PUT', '/provision/teams/waits', { tiers: { 'memory-extract': ['one/echo'] } });
    await untilState(gateway, 'done');
    expect(await memoriesOf(gateway)).toMatchObject([{ text: 'I am called Bob.' }]);
    const timers = (await historyOf(gateway, batch?.id ?? '')).matchAll(/"startToFireTimeout":\{"seconds":\D*(\d+)/g);
    const waits = [...timers].map(([, seconds]) => Number(seconds));
    // The wait is 1.2 seconds at first and doubles after each failure.
    expect(waits.slice(0, 3)).toEqual([1, 2, 4]);
  });

  it('keeps a learning batch waiting while no memory model is configured', async () => {
    const gateway = await lend('unrouted', { tiers: { trivial: [] } });
    await say(gateway, 'I am called Cid.', 'cid');
    expect(await untilState(gateway, 'waiting')).toMatchObject({ attempts: 0, error: { code: 'no_route' } });
    await gateway.admin('PUT', '/provision/teams/unrouted', { tiers: { trivial: ['one/echo'] } });
    await untilState(gateway, 'done');
    expect(await memoriesOf(gateway)).toMatchObject([{ text: 'I am called Cid.' }]);
  });

  it('learns only with memory models that have the required tags', async () => {
    const gateway = await lend('tagged', { required_tags: ['eu'], catalog_fill: false, tiers: { 'memory-extract': ['two/echo'] } });
    await say(gateway, 'I am called Eve.', 'eve');
    expect(await untilState(gateway, 'waiting')).toMatchObject({ attempts: 0, error: { code: 'no_route' } });
    const sentToTwo = () =>
      gateway.vendor.requests().filter(({ headers, body }) => headers.authorization === 'Bearer key-two' && body.includes('Eve'));
    expect(sentToTwo()).toEqual([]);
    await gateway.admin('PUT', '/provision/teams/tagged', { required_tags: [] });
    await untilState(gateway, 'done');
    expect(sentToTwo().length).toBeGreaterThan(0);
  });

  it("learns from the messages of a failing batch when it's replayed", async () => {
    const gateway = await lend('parked', { tiers: { 'memory-extract': ['one/long-5'] } });
    await say(gateway, 'I am called Dot.', 'dot');
    // Skips the retry delays for an unavailable vendor.
    const failing = await eventually(async () => {
      const [batch] = await batchesOf(gateway);
      if (batch && batch.state !== 'failing') await gateway.admin('PUT', '/provision/teams/parked', {});
      expect(batch).toMatchObject({ state: 'failing', error: { code: 'unusable_answer' } });
      // Each change of the settings starts another attempt.
      expect(batch?.attempts).toBeGreaterThanOrEqual(5);
      return batch;
    });
    await gateway.admin('PUT', '/provision/teams/parked', { tiers: { 'memory-extract': ['three/echo'] } });
    expect(await batchesOf(gateway, 'failing')).toHaveLength(1);
    const replay = await gateway.admin('POST', `/provision/teams/parked/batches/${failing?.id}/replay`);
    expect([replay.status, await replay.json()]).toEqual([202, expect.objectContaining({ id: failing?.id })]);
    await untilState(gateway, 'done');
    expect(await memoriesOf(gateway)).toMatchObject([{ text: 'I am called Dot.' }]);
    expect((await gateway.admin('POST', `/provision/teams/parked/batches/${randomUUID()}/replay`)).status).toBe(404);
    expect((await gateway.admin('GET', '/provision/teams/parked/batches?state=x')).status).toBe(400);
  });

  it('learns from recorded conversations and answers questions about them', async () => {
    const sample = {
      sample_id: 'Tiny-1',
      conversation: {
        session_1_date_time: '1:56 pm on 8 May, 2023',
        session_1: [
          { speaker: 'Ida', text: 'I live in Oslo now.' },
          { speaker: 'Tom', text: 'My boat is called Alba.', blip_caption: 'a photo of a boat' },
        ],
        session_2_date_time: '10:00 am on 1 June, 2023',
        session_2: [{ speaker: 'Ida', text: 'I have three cats.' }],
      },
      qa: [
        { question: 'Where does Ida live?', answer: 'Oslo', category: 4 },
        { question: 'How many cats has Ida?', answer: 3, category: 2 },
        { question: 'Where does the boat of Ida lie?', category: 5 },
      ],
    };
    const [dialogue] = parseDialogues(JSON.stringify([sample]));
    if (!dialogue) throw new Error('the sample has a dialogue');
    expect(dialogue.questions.map(({ answer, kind }) => [answer, kind])).toEqual([
      ['Oslo', 'single-hop'],
      ['3', 'temporal'],
    ]);
    const { database, url } = shared();
    await recordDialogue(database, dialogue);
    await recordDialogue(database, dialogue); // Like after a kill.
    const gateway = await shared().withProject(projectOf(dialogue));
    const client = createClient({ url, key: gateway.key, adminToken });
    const lines: string[] = [];
    expect(await awaitLearned(client, dialogue, (line) => void lines.push(line))).toEqual({ written: 3, dropped: 0 });
    expect(lines.at(-1)).toBe('Tiny-1: 5 of 5 messages learned, 3 memories, 0 statements refused');
    const days = await database.query<{ at: Date }>(
      `select distinct conversation.started_at as at from conversations conversation join projects project on project.id = conversation.project_id
        where project.slug = $1::text order by at`,
      [gateway.project],
    );
    expect(days.map(({ at }) => at.toISOString())).toEqual(['2023-05-08T13:56:00.000Z', '2023-06-01T10:00:00.000Z']);
    const [question] = dialogue.questions;
    if (!question) throw new Error('the dialogue has a question');
    const judge = `one/say-${Buffer.from('{"label": "CORRECT"}').toString('base64url')}`;
    const judged = await askQuestion(client, question, { answer: 'one/echo-body', judge });
    expect(judged).toMatchObject({ verdict: 'correct', answer: expect.stringContaining('- Ida: I live in Oslo now.') });
    expect(judged.recalled).toBeGreaterThan(0);
    expect(gateway.vendor.requests().at(-1)?.body.toString()).toContain('\\"correct_answer\\":\\"Oslo\\"');
    // A question alone is not a conversation, and a rating needs a label.
    expect(await memoriesOf(gateway)).toHaveLength(3);
    expect(['{"label":"WRONG"}', 'CORRECT', '{"label":"WRONG"} or {"label":"CORRECT"}'].map(parseVerdict)).toEqual([
      'wrong',
      'unclear',
      'unclear',
    ]);
  });
});
