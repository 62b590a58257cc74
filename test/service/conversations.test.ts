/**
 * Tests conversations end to end. Calls form a conversation, a real Temporal server runs its idle timer, and other
 * projects can't see it.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { createTemporal } from '../../src/temporal/client/temporal.ts';
import type { Durable } from '../../src/temporal/durable.ts';
import type { TestGateway } from '../support/gateway.ts';
import { callsOf, defaultYaml, eventually, jsonOf, shareGateway, withGateway } from '../support/gateway.ts';
import { readUntilCut } from '../support/read-until-cut.ts';
import { createTestLog, readServerRecord } from '../support/temporal.ts';
import { onAnyDatabase } from './both-databases.ts';

const idleMs = 3_000;
const yaml = (vendorUrl: string, deadUrl: string): string =>
  defaultYaml(vendorUrl, deadUrl).replace(/idle_minutes: [\d.]+/, `idle_minutes: ${idleMs / 60_000}`);

interface Message {
  readonly role: 'user' | 'assistant';
  readonly content: string;
}

interface Way {
  readonly path: '/v1/chat/completions' | '/v1/messages';
  readonly model: string;
  readonly stream: boolean;
}

const chat: Way = { path: '/v1/chat/completions', model: 'one/echo', stream: false };
const messages: Way = { path: '/v1/messages', model: 'three/echo', stream: false };
const ways: readonly Way[] = [chat, { ...chat, stream: true }, messages, { ...messages, stream: true }];

interface Turn {
  readonly callId: string;
  readonly history: readonly Message[];
}

/** Sends `text` after the whole history, like applications do. */
async function say(gateway: TestGateway, way: Way, text: string, { before, headers }: SayOptions = {}): Promise<Turn> {
  const messages: readonly Message[] = [...(before?.history ?? []), { role: 'user', content: text }];
  const response = await gateway.call(way.path, { model: way.model, stream: way.stream, max_tokens: 1_000, messages }, headers);
  const body = await response.text();
  expect([response.status, body]).toEqual([200, expect.any(String)]);
  const answer = way.stream ? streamedText(body) : plainText(body);
  expect(answer).toContain(text);
  return { callId: response.headers.get('x-gateway-call-id') ?? '', history: [...messages, { role: 'assistant', content: answer }] };
}

interface SayOptions {
  readonly before?: Turn;
  readonly headers?: Record<string, string>;
}

interface AnswerText {
  readonly choices?: readonly { readonly message?: { readonly content: string }; readonly delta?: { readonly content?: string } }[];
  readonly content?: readonly { readonly text: string }[];
  readonly delta?: { readonly text?: string };
}

function plainText(body: string): string {
  const { choices, content } = JSON.parse(body) as AnswerText;
  return choices?.[0]?.message?.content ?? content?.[0]?.text ?? '';
}

function streamedText(body: string): string {
  const events = [...body.matchAll(/^data: (\{.*\})$/gm)].map(([, json = '']) => JSON.parse(json) as AnswerText);
  return events.map(({ choices, delta }) => choices?.[0]?.delta?.content ?? delta?.text ?? '').join('');
}

interface Episode {
  readonly id: string;
  readonly title: string | null;
  readonly subject: string | null;
  readonly state: string;
  readonly turns: number;
  readonly read_at: string | null;
  readonly text: string;
  readonly messages: readonly Message[];
}

/** Returns the conversation of this call, or null if it has none. */
async function conversationOf({ database }: TestGateway, { callId }: Pick<Turn, 'callId'>): Promise<string | null> {
  return eventually(async () => {
    const [row] = await database.query<{ id: string | null }>('select conversation_id as id from call_texts where call_id = $1::uuid', [
      callId,
    ]);
    if (!row) throw new Error('the call is not stored yet');
    return row.id;
  });
}

const episode = (gateway: TestGateway, id: string | null): Promise<Episode> => jsonOf(gateway.call(`/v1/memory/episodes/${id}`));

/** Returns the episode once it has been closed. */
async function readEpisode(gateway: TestGateway, id: string | null): Promise<Episode> {
  return eventually(async () => {
    const found = await episode(gateway, id);
    expect(found.state).toBe('read');
    return found;
  });
}

/** Returns the workflow id of a run of the project's idle timer, by default the latest one. */
async function idleTimerId({ database, project }: TestGateway, run?: number): Promise<string> {
  const [timer] = await database.query<{ projectId: string; run: number }>(
    'select project_id as "projectId", run from idle_timers where project_id = (select id from projects where slug = $1::text)',
    [project],
  );
  return `conversations/${timer?.projectId}/${run ?? timer?.run}`;
}

async function countRows({ database }: TestGateway, table: 'outbox' | 'conversations'): Promise<number> {
  const [row] = await database.query<{ count: number }>(`select count(*)::integer as count from ${table}`);
  return row?.count ?? 0;
}

async function untilReady(durable: Durable): Promise<void> {
  await eventually(async () => expect(durable.state()).toBe('ready'));
}

describe('conversations with Temporal', () => {
  const shared = shareGateway({ database: 'any', temporal: true, yaml });
  let durable: Durable;
  beforeAll(async () => {
    durable = shared().app.startDurable();
    await untilReady(durable);
  });

  const readAt = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);

  it('closes a conversation when it is idle', async () => {
    const talk = async (way: Way, slug: string): Promise<void> => {
      const gateway = await shared().withProject(slug);
      const question = `What do you know of ${slug}?`;
      const first = await say(gateway, way, question);
      const second = await say(gateway, way, 'And what else?', { before: first });
      const id = await conversationOf(gateway, second);
      expect(await conversationOf(gateway, first)).toBe(id);
      const stored = await episode(gateway, id);
      expect(stored).toMatchObject({ turns: 4, messages: second.history });
      // On a slow machine it may already be closed.
      expect([stored.read_at, stored.title].map((value) => value === null)).toEqual(Array(2).fill(stored.state === 'stored'));
      const read = await readEpisode(gateway, id);
      expect(read).toMatchObject({ title: question, read_at: readAt, turns: 4, messages: second.history });
      for (const { content } of second.history) expect(read.text).toContain(content);
    };
    await Promise.all(ways.map((way, index) => talk(way, `talk-${index}`)));
  });

  it('closes a conversation again after it was continued', async () => {
    const gateway = await shared().withProject('goes-on');
    const first = await say(gateway, chat, 'Good morning.');
    const id = await conversationOf(gateway, first);
    await readEpisode(gateway, id);
    const second = await say(gateway, chat, 'Good evening.', { before: first });
    expect(await conversationOf(gateway, second)).toBe(id);
    const again = await readEpisode(gateway, id);
    expect([again.turns, again.text]).toEqual([4, expect.stringContaining('Good evening.')]);
    expect((await closedRun(gateway, await idleTimerId(gateway, 2))).name).toBe('COMPLETED');
  });

  it('keeps texts and subjects out of the Temporal web UI', async () => {
    const gateway = await shared().withProject('acme-clinic');
    const subject = 'ada.lovelace@example.org';
    const options = { headers: { 'x-gateway-memory-subject': subject, 'x-gateway-source': 'hospital-desk' } };
    const first = await say(gateway, chat, 'The patient said that she is pregnant.', options);
    const id = await conversationOf(gateway, await say(gateway, chat, 'Nobody may know of it.', { ...options, before: first }));
    expect(await readEpisode(gateway, id)).toMatchObject({ subject, title: 'The patient said that she is pregnant.' });
    const workflowId = await idleTimerId(gateway, 1);
    expect((await closedRun(gateway, workflowId)).name).toBe('COMPLETED');

    const page = await fetch(durable.uiUrl() ?? '');
    expect([page.status, page.headers.get('content-type')]).toEqual([200, expect.stringContaining('text/html')]);
    const api = await uiApi(gateway);
    const listed = await eventually(async () => {
      const { executions } = await jsonOf<{ executions: readonly ListedRun[] }>(fetch(`${api}/workflows`));
      const run = executions.find(({ execution }) => execution.workflowId === workflowId);
      expect(run?.status).toMatch(/COMPLETED/);
      return run;
    });
    expect(listed).toMatchObject({ type: { name: 'idleConversations' }, closeTime: readAt });

    const answer = await fetch(`${api}/workflows/${encodeURIComponent(workflowId)}/history`);
    const history = withDecodedPayloads(await answer.text());
    // This shows that we read the history and decoded its payloads.
    expect(history).toContain('readIdleConversations');
    expect(history).toContain(`"project_id":"${workflowId.split('/')[1]}"`);
    // The history would outlive an erasure of the conversation.
    expect(history).not.toContain(id);
    // Operators may see the slug of the project.
    expect(history).toContain('acme-clinic: close conversations when they are idle');
    for (const planted of ['patient', 'pregnant', 'Nobody', 'You said', subject, 'lovelace', 'hospital'])
      expect(history.toLowerCase()).not.toContain(planted.toLowerCase());
  });

  it('continues a conversation after Temporal has crashed between two turns', async () => {
    const gateway = await shared().withProject('killed');
    const first = await say(gateway, chat, 'Are you still there?');
    const isBack = await killTemporal(gateway);
    const second = await say(gateway, chat, 'And now?', { before: first });
    await isBack();
    await untilReady(durable);
    const third = await say(gateway, chat, 'And once more?', { before: second });
    const isBackAgain = await killTemporal(gateway);
    const id = await conversationOf(gateway, third);
    expect([await conversationOf(gateway, first), await conversationOf(gateway, second)]).toEqual([id, id]);
    await isBackAgain();
    const read = await readEpisode(gateway, id);
    expect(read).toMatchObject({ title: 'Are you still there?', turns: 6, messages: third.history });
    expect((await closedRun(gateway, await idleTimerId(gateway))).name).toBe('COMPLETED');
    await eventually(async () => expect(await countRows(gateway, 'outbox')).toBe(0));
  });
});

interface ListedRun {
  readonly execution: { readonly workflowId: string };
  readonly status: string;
}

/** Returns the URL of the web UI's API for the namespace. */
async function uiApi({ dataDir }: TestGateway): Promise<string> {
  const { uiUrl, namespace } = await readServerRecord(dataDir);
  return `${uiUrl}/api/v1/namespaces/${namespace}`;
}

/** Appends the text of the payloads, which histories store as base64. */
function withDecodedPayloads(json: string): string {
  return json.replace(/"data":\s*"([A-Za-z0-9+/=]+)"/g, (whole, data: string) => `${whole} ${Buffer.from(data, 'base64').toString()}`);
}

/** Returns the status of the workflow according to Temporal's own client. */
async function closedRun({ dataDir }: TestGateway, workflowId: string): Promise<{ name: string }> {
  const { address, namespace } = await readServerRecord(dataDir);
  const temporal = createTemporal({ address, namespace, logger: createTestLog().logger });
  try {
    return await eventually(async () => {
      const { status, closeTime } = await temporal.client.workflow.getHandle(workflowId).describe();
      expect(closeTime).toBeInstanceOf(Date);
      return status;
    });
  } finally {
    await temporal.close();
  }
}

/** Kills Temporal. Returns a function that waits until another of its processes is running. */
async function killTemporal({ dataDir }: TestGateway): Promise<() => Promise<void>> {
  const { pid } = await readServerRecord(dataDir);
  process.kill(pid, 'SIGKILL');
  return () => eventually(async () => expect((await readServerRecord(dataDir)).pid).not.toBe(pid));
}

it('closes conversations that were stored while Temporal was off', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'gateway-off-'));
  try {
    const id = await withGateway({ dataDir, yaml }, async (gateway) => {
      const durable = gateway.app.startDurable();
      const first = await say(gateway, chat, 'Nobody is in a hurry.');
      const second = await say(gateway, messages, 'Really not.', { before: first });
      const found = await conversationOf(gateway, second);
      expect(await conversationOf(gateway, first)).toBe(found);
      const usage = await jsonOf<{ spend: number }>(gateway.call('/usage/me'));
      expect(usage.spend).toBeGreaterThan(0);
      expect(await callsOf(gateway)).toHaveLength(2);
      await new Promise((resolve) => setTimeout(resolve, idleMs));
      expect(await episode(gateway, found)).toMatchObject({ state: 'stored', turns: 4, messages: second.history });
      expect(durable.state()).toBe('off');
      expect(await countRows(gateway, 'outbox')).toBe(1);
      return found;
    });
    await withGateway({ dataDir, yaml, temporal: true }, async (gateway) => {
      await untilReady(gateway.app.startDurable());
      expect(await readEpisode(gateway, id)).toMatchObject({ title: 'Nobody is in a hurry.', turns: 4 });
      await eventually(async () => expect(await countRows(gateway, 'outbox')).toBe(0));
      expect((await closedRun(gateway, await idleTimerId(gateway, 1))).name).toBe('COMPLETED');
    });
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
});

onAnyDatabase('a conversation', (database) => {
  const shared = shareGateway({ database });

  it("doesn't store calls with x-gateway-memory: off", async () => {
    const gateway = await shared().withProject('unrecorded');
    const off = await say(gateway, chat, 'Forget this.', { headers: { 'x-gateway-memory': 'OFF' } });
    expect(await conversationOf(gateway, off)).toBeNull();
    for (const { path, model } of [chat, messages]) {
      for (const [fault, outcome] of [
        ['break-after-3+long-20', 'interrupted'],
        ['fail-500', 'failed'],
      ]) {
        const body = {
          model: model.replace('echo', fault ?? ''),
          stream: true,
          max_tokens: 100,
          messages: [{ role: 'user', content: 'Hello' }],
        };
        const response = await gateway.call(path, body);
        await readUntilCut(response);
        expect(await callsOf(gateway, '?limit=1')).toMatchObject([{ outcome }]);
        expect(await conversationOf(gateway, { callId: response.headers.get('x-gateway-call-id') ?? '' })).toBeNull();
      }
    }
  });

  it("doesn't mix up identical conversations in different projects", async () => {
    const [ours, theirs] = [await shared().withProject('ours'), await shared().withProject('theirs')];
    const first = await say(ours, chat, 'Whose is this?');
    const id = await conversationOf(ours, first);
    const stolen = await say(theirs, chat, 'And this?', { before: first });
    const other = await conversationOf(theirs, stolen);
    expect(other).not.toBe(id);
    expect((await episode(ours, id)).turns).toBe(2);
    expect((await episode(theirs, other)).turns).toBe(4);
    for (const [gateway, foreign] of [
      [ours, other],
      [theirs, id],
    ] as const) {
      const response = await gateway.call(`/v1/memory/episodes/${foreign}`);
      expect([response.status, await response.json()]).toEqual([
        404,
        expect.objectContaining({ error: expect.objectContaining({ code: 'not_found' }) }),
      ]);
    }
  });
});
