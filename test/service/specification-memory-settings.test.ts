/** Tests memory settings and which calls are recorded (see docs/api/reference.md#memory-rules). */
import { createHash } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { readTextsOfPrompts } from '../memory/find-text.ts';
import type { TestGateway } from '../support/gateway.ts';
import { eventually, jsonOf, shareGateway } from '../support/gateway.ts';
import { startTogether } from '../support/start-together.ts';
import { onAnyDatabase } from './both-databases.ts';
import { ask, expectChatError, expectRouteError, projectLender, routeOf } from './inference-routes.ts';

const defaults = {
  ...{ enabled: true, only_senders: [], delete_conversations_after_days: null, delete_unlearned: false },
  ...{ batch_of: 20, at_least_every_minutes: 60, recall_budget_tokens: null, pending_deletion: null },
};

const put = (gateway: TestGateway, body: unknown): Promise<Response> =>
  gateway.admin('PUT', `/provision/teams/${gateway.project}/memory`, body);
const read = (gateway: TestGateway): Promise<unknown> => jsonOf(gateway.admin('GET', `/provision/teams/${gateway.project}/memory`));

onAnyDatabase('memory settings', (database) => {
  const lent = shareGateway({ database });
  const lendProject = projectLender(lent, 'settings');

  it('keeps the values of omitted memory settings', async () => {
    const gateway = await lendProject();
    expect(await read(gateway)).toEqual(defaults);
    const changes = [{ batch_of: 5 }, { only_senders: ['a', 'b'], delete_conversations_after_days: 30 }, {}, { only_senders: [] }];
    const expected = { ...defaults, batch_of: 5, delete_conversations_after_days: 30 };
    const answers: unknown[] = [];
    for (const change of changes) answers.push(await jsonOf(put(gateway, change)));
    expect(answers).toEqual([
      { ...defaults, batch_of: 5 },
      { ...expected, only_senders: ['a', 'b'] },
      { ...expected, only_senders: ['a', 'b'] },
      expected,
    ]);
    expect(await read(gateway)).toEqual(expected);
  });

  it('keeps all concurrent changes to memory settings', async () => {
    const gateway = await lendProject();
    await Promise.all([put(gateway, { batch_of: 7 }), put(gateway, { at_least_every_minutes: 9 }), put(gateway, { enabled: false })]);
    expect(await read(gateway)).toEqual({ ...defaults, batch_of: 7, at_least_every_minutes: 9, enabled: false });
  });

  it.each<[string, object]>([
    ['batch_of 0', { batch_of: 0 }],
    ['batch_of 1001', { batch_of: 1_001 }],
    ['batch_of 2.5', { batch_of: 2.5 }],
    ['at_least_every_minutes 0', { at_least_every_minutes: 0 }],
    ['at_least_every_minutes 43201', { at_least_every_minutes: 43_201 }],
    ['a recall budget of 99 tokens', { recall_budget_tokens: 99 }],
    ['a recall budget of 16001 tokens', { recall_budget_tokens: 16_001 }],
    ['an interval as long as the retention period', { at_least_every_minutes: 1_440, delete_conversations_after_days: 1 }],
    ['a retention period of 0 days', { delete_conversations_after_days: 0 }],
    ['sources that are not a list', { only_senders: 'app' }],
    ['a source without a name', { only_senders: [''] }],
    ['enabled as text', { enabled: 'yes' }],
    ['an unknown field', { batchOf: 3 }],
  ])('returns 400 bad_request for memory settings with %s', async (_title, body) => {
    const gateway = await lendProject();
    await expectChatError(await put(gateway, body), 400, 'bad_request');
    expect(await read(gateway)).toEqual(defaults);
  });

  it("returns 400 if the retention period isn't longer than the stored learning interval", async () => {
    const gateway = await lendProject();
    expect((await put(gateway, { at_least_every_minutes: 2_880 })).status).toBe(200);
    await expectChatError(await put(gateway, { delete_conversations_after_days: 2 }), 400, 'bad_request');
    expect((await put(gateway, { delete_conversations_after_days: 3 })).status).toBe(200);
  });

  it('returns 404 for the settings of an unknown project', async () => {
    await expectChatError(await lent().admin('PUT', '/provision/teams/nobody/memory', {}), 404, 'not_found');
    await expectChatError(await lent().call(`/provision/teams/${lent().project}/memory`), 401, 'invalid_key');
  });
});

interface Recording {
  readonly title: string;
  readonly recorded: boolean;
  readonly route?: Parameters<typeof routeOf>[0];
  readonly model?: string;
  readonly settings?: object;
  readonly headers?: Record<string, string>;
  readonly more?: Record<string, unknown>;
  readonly subject?: string | null;
}

describe('memory settings and calls', () => {
  const lent = shareGateway({ database: 'any' });
  const lendProject = projectLender(lent, 'recording');

  describe('recording of calls', () => {
    const senders = { only_senders: ['listed'] };
    const by = (source: string): Record<string, string> => ({ 'x-gateway-source': source });
    const mode = (value: string): Record<string, string> => ({ 'x-gateway-memory': value });
    const about = (subject: string): Record<string, string> => ({ 'x-gateway-memory-subject': subject });
    const rows: readonly Recording[] = [
      { title: 'chat', recorded: true },
      { title: 'messages', route: 'messages', recorded: true },
      { title: 'responses', route: 'responses', recorded: true },
      { title: 'embeddings', route: 'embeddings', recorded: false },
      { title: 'moderations', route: 'moderations', recorded: false },
      { title: 'rerank', route: 'rerank', recorded: false },
      { title: 'a call that failed', model: 'first/fail-500', recorded: false },
      { title: 'a call that was rejected', model: 'first/refuse-400', recorded: false },
      { title: 'memory off for the project', settings: { enabled: false }, recorded: false },
      { title: 'a listed source', settings: senders, headers: by('listed'), recorded: true },
      { title: 'a source that is not listed', settings: senders, headers: by('other'), recorded: false },
      { title: 'no source where sources are listed', settings: senders, recorded: false },
      { title: 'any source where none is listed', headers: by('other'), recorded: true },
      ...['write', 'WRITE', '', 'recall', 'Recall'].map((value) => ({
        title: `x-gateway-memory: ${value}`,
        headers: mode(value),
        recorded: true,
      })),
      ...['off', 'OFF'].map((value) => ({ title: `x-gateway-memory: ${value}`, headers: mode(value), recorded: false })),
      { title: 'recall on responses, which acts as write', route: 'responses', headers: mode('recall'), recorded: true },
      { title: 'off on messages', route: 'messages', headers: mode('off'), recorded: false },
      { title: 'off on responses', route: 'responses', headers: mode('off'), recorded: false },
      { title: 'a subject in the header', headers: about('ann'), more: { user: 'bob' }, subject: 'ann', recorded: true },
      { title: 'a subject in the body of chat', more: { user: 'bob' }, subject: 'bob', recorded: true },
      { title: 'a subject in the body of responses', route: 'responses', more: { user: 'bob' }, subject: 'bob', recorded: true },
      {
        title: 'a subject in the body of messages',
        route: 'messages',
        more: { metadata: { user_id: 'eve' } },
        subject: 'eve',
        recorded: true,
      },
      ...(['chat', 'messages', 'responses'] as const).map((route) => ({
        title: `${route}, streamed`,
        route,
        more: { stream: true },
        recorded: true,
      })),
      ...(['messages', 'responses'] as const).flatMap((route) =>
        ['write', 'recall'].map((value) => ({
          title: `${value} on ${route}, streamed`,
          route,
          headers: mode(value),
          more: { stream: true },
          recorded: true,
        })),
      ),
      { title: 'write on messages', route: 'messages', headers: mode('write'), recorded: true },
      { title: 'recall on messages', route: 'messages', headers: mode('recall'), recorded: true },
      { title: 'write on responses', route: 'responses', headers: mode('write'), recorded: true },
      { title: 'a streamed call that failed', model: 'first/fail-500', more: { stream: true }, recorded: false },
      { title: 'off, streamed', headers: mode('off'), more: { stream: true }, recorded: false },
      ...(['chat', 'messages', 'responses'] as const).map((route) => ({
        title: `200 with off, with any subject header on ${route}`,
        route,
        headers: { ...mode('off'), ...about('x'.repeat(257)) },
        recorded: false,
      })),
      {
        title: '200 while memory is off, with any subject header',
        settings: { enabled: false },
        headers: about('x'.repeat(257)),
        recorded: false,
      },
      {
        title: '200 for a source that is not listed, with any subject header',
        settings: { only_senders: ['listed'] },
        headers: about('x'.repeat(257)),
        recorded: false,
      },
      { title: 'a body user that is not a valid subject', more: { user: 'x'.repeat(257) }, subject: null, recorded: true },
    ];

    // Each call waits until the drain has stored it.
    const stored = startTogether(rows, async ({ route = 'chat', model = 'first/echo', settings, headers = {}, more = {} }) => {
      const gateway = await lendProject();
      if (settings) expect((await put(gateway, settings)).status).toBe(200);
      const response = await ask(gateway, routeOf(route), model, { headers, more });
      await response.text();
      const id = response.headers.get('x-gateway-call-id');
      return eventually(async () => {
        const found = await gateway.database.query<{ conversation: string | null; subject: string | null }>(
          `select conversation.id as conversation, conversation.subject from calls
             left join call_texts text on text.call_id = calls.id
             left join conversations conversation on conversation.id = text.conversation_id
            where calls.id = $1::uuid`,
          [id],
        );
        expect(found).toHaveLength(1);
        return found[0];
      });
    });

    it.each(rows.map((row) => ({ ...row, row })))(
      'decides if a call is recorded: $title ($recorded)',
      async ({ row, recorded, subject = null }) => {
        const call = await stored(row);
        expect(call?.conversation !== null).toBe(recorded);
        expect(call?.subject ?? null).toBe(subject);
      },
    );

    it.each(
      (['chat', 'messages', 'responses'] as const).flatMap((route) =>
        ['write', 'recall', ''].map((value) => ({ route, value, headers: { ...mode(value), ...about('x'.repeat(257)) } })),
      ),
    )('returns 400 for a subject of 257 characters on $route with the memory mode "$value"', async ({ route, headers }) => {
      const gateway = await lendProject();
      const before = gateway.vendor.requests().length;
      const wanted = { status: 400, code: 'invalid_memory_subject' };
      await expectRouteError(await ask(gateway, routeOf(route), 'first/echo', { headers }), routeOf(route), wanted);
      expect(gateway.vendor.requests()).toHaveLength(before);
    });
  });

  it("ignores an invalid subject if the call isn't recorded", async () => {
    const gateway = await lendProject();
    expect((await put(gateway, { only_senders: ['listed'] })).status).toBe(200);
    for (const item of [{ text: 'Tea of Ada: oolong', subject: 'ada' }, { text: 'Tea of everybody: rooibos' }])
      expect((await gateway.call('/v1/memory/items', item)).status).toBe(201);
    const messages = [{ role: 'user', content: 'Which tea?' }];
    const tooLong = 'x'.repeat(257);
    for (const [headers, more] of [
      [{ 'x-gateway-memory-subject': tooLong }, { messages }],
      [{}, { messages, user: tooLong }],
    ] as const) {
      const response = await ask(gateway, routeOf('chat'), 'first/echo', { headers: { 'x-gateway-memory': 'recall', ...headers }, more });
      expect(response.status).toBe(200);
      const sent = gateway.vendor.requests().at(-1)?.body.toString() ?? '';
      expect([sent.includes('rooibos'), sent.includes('oolong')]).toEqual([true, false]);
    }
  });

  it.each([
    { first: {}, after: { enabled: false }, recorded: true },
    { first: { enabled: false }, after: { enabled: true }, recorded: false },
    { first: {}, after: { only_senders: ['other'] }, recorded: true },
  ])('uses the memory settings that applied when the call started: $first, then $after', async ({ first, after, recorded }) => {
    const gateway = await lendProject();
    expect((await put(gateway, first)).status).toBe(200);
    const before = gateway.vendor.requests().length;
    const answered = ask(gateway, routeOf('chat'), 'first/held');
    await eventually(async () => expect(gateway.vendor.requests()).toHaveLength(before + 1));
    expect((await put(gateway, after)).status).toBe(200);
    await eventually(async () => expect(gateway.vendor.release()).toBe(1));
    const response = await answered;
    await response.text();
    await eventually(async () => {
      const found = await gateway.database.query<{ conversation: string | null }>(
        'select conversation_id as conversation from call_texts where call_id = $1::uuid',
        [response.headers.get('x-gateway-call-id')],
      );
      expect(found.map(({ conversation }) => conversation !== null)).toEqual([recorded]);
    });
  });

  describe('binary content', () => {
    const bytes = Buffer.from(Array.from({ length: 3_000 }, (_, n) => (n * 89) % 256));
    const data = bytes.toString('base64');
    const url = `data:image/png;base64,${data}`;
    const text = 'What is on this picture?';
    const user = (...content: object[]): object[] => [{ role: 'user', content }];
    const image = { type: 'image_url', image_url: { url } };
    const source = { type: 'base64', media_type: 'image/png', data };

    it.each<[Parameters<typeof routeOf>[0], Record<string, unknown>]>([
      ['chat', { messages: user({ type: 'text', text }, image) }],
      ['messages', { messages: user({ type: 'text', text }, { type: 'image', source }) }],
      ['responses', { input: user({ type: 'input_text', text }, { type: 'input_image', image_url: url }) }],
    ])('stores only the type, size and SHA-256 hash of an image on %s', async (route, more) => {
      const gateway = await lendProject();
      const response = await ask(gateway, routeOf(route), 'first/echo', { more });
      expect(response.status).toBe(200);
      await response.text();
      expect(gateway.vendor.requests().at(-1)?.body.toString()).toContain(data);
      await eventually(async () => {
        const rows = await gateway.database.query<{ kept: string }>(
          `select to_jsonb(parts)::text as kept from parts join projects on projects.id = project_id and slug = $1::text
           union all
           select passage.text from memory_passages passage join projects on projects.id = passage.project_id and slug = $1::text`,
          [gateway.project],
        );
        const kept = [...rows.map((row) => row.kept), ...(await readTextsOfPrompts(gateway.database))].join('\n');
        expect(kept).toContain(text);
        for (const known of ['image/png', '3000', createHash('sha256').update(bytes).digest('hex')]) expect(kept).toContain(known);
        for (let at = 0; at < data.length; at += 400) expect(kept).not.toContain(data.slice(at, at + 40));
      });
    });
  });
});
