/** Tests a project's content rules, i.e. what is blocked, and what is logged, stored and charged. */
import { describe, expect, test } from '@jest/globals';
import type { TestGateway } from '../support/gateway.ts';
import { callsOf, eventually, jsonOf, shareGateway } from '../support/gateway.ts';
import { readUntilCut } from '../support/read-until-cut.ts';
import { vendors, ways } from './dialects-gateway.ts';
import type { InferenceRoute } from './inference-routes.ts';
import { expectRouteError, projectLender, routeOf, routes } from './inference-routes.ts';

const lent = shareGateway({ database: 'any' });
const lend = projectLender(lent, 'rules');

/** A value of each class, and similar text that doesn't match. */
const samples = {
  credential: ['ghp_Zk93hTPLmXw4Rb8VnYc2Jdq7GsAf6EuKt5Bo', 'the ghp_ prefix'],
  card_number: ['4111 1111 1111 1111', '4111 1111 1111 1112'],
  email: ['ada@example.com', 'ada at example'],
  phone: ['+49 30 1234567', '2026-11-21'],
  iban: ['DE89 3704 0044 0532 0130 00', 'DE89 3704 0044 0532 0130 01'],
  expression: ['Project Nightjar', 'Project Sparrow'],
} as const;
type RuleClass = keyof typeof samples;
const classes = Object.keys(samples) as RuleClass[];

type Place = 'input' | 'output';
type Action = 'block' | 'observe';

function ruleOf(ruleClass: RuleClass, place: Place, action: Action) {
  return { class: ruleClass, place, action, ...(ruleClass === 'expression' && { expression: '(?i)project\\s+nightjar' }) };
}

async function setRules(gateway: TestGateway, ...rules: object[]): Promise<void> {
  const answer = await gateway.admin('PUT', `/provision/teams/${gateway.project}/rules`, { rules });
  expect([answer.status, await answer.json()]).toEqual([200, { rules }]);
}

async function withRules(...rules: object[]): Promise<TestGateway> {
  const gateway = await lend();
  await setRules(gateway, ...rules);
  return gateway;
}

/** Request bodies for each route with `text` as the caller's message. */
const bodies: Readonly<Record<InferenceRoute['name'], (text: string) => object>> = {
  chat: (text) => ({ messages: [{ role: 'user', content: text }] }),
  messages: (text) => ({ max_tokens: 500, messages: [{ role: 'user', content: [{ type: 'text', text }] }] }),
  embeddings: (text) => ({ input: ['first', text] }),
  moderations: (text) => ({ input: text }),
  rerank: (text) => ({ query: 'hi', documents: ['one', { text }] }),
  responses: (text) => ({ input: [{ role: 'user', content: [{ type: 'input_text', text }] }] }),
};

/** Returns a model that responds with exactly `text`. */
function saying(text: string): string {
  return `say-${Buffer.from(text).toString('base64url')}`;
}

function asked({ vendor }: TestGateway): number {
  return vendor.requests().length;
}

/** Returns the log lines about rules for calls of this project. */
function found(gateway: TestGateway): object[] {
  return gateway.logs
    .map((line) => JSON.parse(line) as Record<string, unknown>)
    .filter(({ msg, project }) => msg === 'content rule matched' && project === gateway.project)
    .map(({ class: ruleClass, place, action }) => ({ class: ruleClass, place, action }));
}

describe('input', () => {
  test.each(routes.flatMap((route) => classes.map((ruleClass) => [route.name, ruleClass] as const)))(
    'returns 403 guardrail_blocked on %s for a prompt with %s',
    async (name, ruleClass) => {
      const route = routeOf(name);
      const gateway = await withRules(ruleOf(ruleClass, 'input', 'block'));
      const [held, passing] = samples[ruleClass];
      const before = asked(gateway);
      const answer = await gateway.call(route.path, { model: `${route.first}/echo`, ...bodies[name](`Data: ${held}.`) });
      await expectRouteError(answer, route, {
        status: 403,
        code: 'guardrail_blocked',
        message: `a content rule blocked the call: ${ruleClass} in input`,
      });
      expect(asked(gateway)).toBe(before);
      expect(found(gateway)).toEqual([{ class: ruleClass, place: 'input', action: 'block' }]);

      const passed = await gateway.call(route.path, { model: `${route.first}/echo`, ...bodies[name](`Data: ${passing}.`) });
      expect(passed.status).toBe(200);
      await passed.text();
      expect(asked(gateway)).toBe(before + 1);
      expect(gateway.logs.join('\n')).not.toContain(held);
    },
  );

  const [email] = samples.email;
  test.each<[string, 'chat' | 'messages' | 'responses', object | string]>([
    [
      'the system prompt',
      'chat',
      {
        messages: [
          { role: 'system', content: email },
          { role: 'user', content: 'hi' },
        ],
      },
    ],
    [
      'an earlier response',
      'chat',
      {
        messages: [
          { role: 'assistant', content: email },
          { role: 'user', content: 'hi' },
        ],
      },
    ],
    [
      'tool arguments',
      'chat',
      {
        messages: [
          { role: 'assistant', tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: `{"to":"${email}"}` } }] },
          { role: 'tool', tool_call_id: 'a', content: 'ok' },
        ],
      },
    ],
    ['the result of a tool', 'chat', { messages: [{ role: 'tool', tool_call_id: 'a', content: [{ type: 'text', text: email }] }] }],
    ['a tool', 'chat', { messages: [], tools: [{ type: 'function', function: { name: 'f', description: email } }] }],
    ['escapes', 'chat', '{"model":"one/echo","messages":[{"role":"user","content":"ada\\u0040example.com"}]}'],
    [
      'the system prompt',
      'messages',
      { max_tokens: 9, system: [{ type: 'text', text: email }], messages: [{ role: 'user', content: 'hi' }] },
    ],
    [
      'a tool input',
      'messages',
      { max_tokens: 9, messages: [{ role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'f', input: { type: email } }] }] },
    ],
    [
      'the result of a tool',
      'messages',
      {
        max_tokens: 9,
        messages: [{ role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a', content: [{ type: 'text', text: email }] }] }],
      },
    ],
    [
      'a document',
      'messages',
      {
        max_tokens: 9,
        messages: [{ role: 'user', content: [{ type: 'document', source: { type: 'text', media_type: 'text/plain', data: email } }] }],
      },
    ],
    ['the instructions', 'responses', { instructions: email, input: 'hi' }],
    ['a function output', 'responses', { input: [{ type: 'function_call_output', call_id: 'a', output: email }] }],
  ])('blocks a request if a content rule matches %s on %s', async (_place, name, body) => {
    const route = routeOf(name);
    const gateway = await withRules(ruleOf('email', 'input', 'block'));
    const sent = typeof body === 'string' ? body : { model: `${route.first}/echo`, ...body };
    await expectRouteError(await gateway.call(route.path, sent), route, {
      status: 403,
      code: 'guardrail_blocked',
      message: /email in input/,
    });
  });

  test("doesn't apply content rules to binary content and encrypted thinking", async () => {
    const gateway = await withRules(ruleOf('expression', 'input', 'block'), ruleOf('credential', 'input', 'block'));
    const [secret] = samples.credential;
    const content = [
      { type: 'thinking', thinking: 'hm', signature: secret },
      { type: 'image', source: { type: 'base64', media_type: 'image/png', data: `${secret}AAAA` } },
      { type: 'text', text: 'hi' },
    ];
    const answer = await gateway.call('/v1/messages', { model: 'three/echo', max_tokens: 50, messages: [{ role: 'user', content }] });
    expect(answer.status).toBe(200);
  });

  test('lets a call through and logs the match if a content rule only observes', async () => {
    const gateway = await withRules(...classes.map((ruleClass) => ruleOf(ruleClass, 'input', 'observe')));
    const text = classes.map((ruleClass) => samples[ruleClass][0]).join(', ');
    const answer = await gateway.call('/v1/chat/completions', { model: 'one/echo', ...bodies.chat(text) });
    expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining('You said')]);
    expect(found(gateway)).toEqual(
      expect.arrayContaining(classes.map((ruleClass) => ({ class: ruleClass, place: 'input', action: 'observe' }))),
    );
    for (const line of gateway.logs) expect(line).not.toContain('ada@example.com');
  });

  test('returns 400 no_route before it evaluates content rules', async () => {
    const gateway = await withRules(ruleOf('email', 'input', 'block'));
    const answer = await gateway.call('/v1/chat/completions', { model: 'nobody/knows', ...bodies.chat(samples.email[0]) });
    await expectRouteError(answer, routeOf('chat'), { status: 400, code: 'no_route' });
  });

  test('applies content rules only to their own project', async () => {
    const gateway = await withRules(ruleOf('email', 'input', 'block'));
    const other = await lend();
    const send = async (from: TestGateway): Promise<number> =>
      (await from.call('/v1/chat/completions', { model: 'one/echo', ...bodies.chat(samples.email[0]) })).status;
    expect([await send(gateway), await send(other)]).toEqual([403, 200]);
    await setRules(gateway);
    expect(await send(gateway)).toBe(200);
    expect(await jsonOf(gateway.admin('GET', `/provision/teams/${gateway.project}/rules`))).toEqual({ rules: [] });
  });
});

const spoken = routes.filter(({ streams }) => streams);

describe('output', () => {
  test.each(
    spoken.flatMap(({ name }) => classes.flatMap((ruleClass) => [false, true].map((stream) => [name, ruleClass, stream] as const))),
  )('returns 403 guardrail_blocked on %s for a response with %s (streamed: %s)', async (name, ruleClass, stream) => {
    const route = routeOf(name);
    const gateway = await withRules(ruleOf(ruleClass, 'output', 'block'));
    const [held, passing] = samples[ruleClass];
    const ask = (text: string): Promise<Response> =>
      gateway.call(route.path, { model: `${route.first}/${saying(text)}`, ...bodies[name]('hi'), stream });
    await expectRouteError(await ask(`Here it is: ${held}.`), route, {
      status: 403,
      code: 'guardrail_blocked',
      message: `a content rule blocked the call: ${ruleClass} in output`,
    });
    const [call] = await callsOf(gateway);
    expect(call).toMatchObject({
      outcome: 'refused',
      status: 403,
      code: 'guardrail_blocked',
      attempts: [{ status: 200, outcome: 'ok' }],
    });
    expect(call?.tokens.output).toBeGreaterThan(0);
    const texts = await gateway.database.query(
      'select conversation_id as conversation, answered from call_texts where call_id = $1::uuid',
      [call?.id],
    );
    expect(texts).toEqual([{ conversation: null, answered: false }]);
    const parts = await gateway.database.query(
      'select content from parts where project_id = (select id from projects where slug = $1::text)',
      [gateway.project],
    );
    expect(JSON.stringify(parts)).not.toContain(held);

    const passed = await ask(`Here it is: ${passing}.`);
    expect([passed.status, textOfAnswer(await passed.text(), stream)]).toEqual([200, expect.stringContaining(passing)]);
  });

  test.each(ways.flatMap(({ caller, vendor }) => [false, true].map((stream) => [caller, vendor, stream] as const)))(
    'blocks a response to a %s caller from a %s vendor if a content rule matches (streamed: %s)',
    async (caller, vendor, stream) => {
      const route = routeOf(caller);
      const gateway = await withRules(ruleOf('email', 'output', 'block'), ruleOf('phone', 'output', 'observe'));
      const bare = await lend();
      const ask = (from: TestGateway, text: string): Promise<Response> =>
        from.call(route.path, { model: `${vendors[vendor]}/${saying(text)}`, ...bodies[caller]('hi'), stream });
      const blocked = await ask(gateway, `ada@ex${'ample'}.com`);
      await expectRouteError(blocked, route, { status: 403, code: 'guardrail_blocked', message: /email in output/ });

      const text = 'No address here, but call +49 30 1234567.';
      const [answer, plain] = [await ask(gateway, text), await ask(bare, text)];
      expect(answer.headers.get('content-type')).toBe(plain.headers.get('content-type'));
      expect(withoutIds(await answer.text())).toBe(withoutIds(await plain.text()));
      await eventually(async () => expect(found(gateway)).toContainEqual({ class: 'phone', place: 'output', action: 'observe' }));
    },
  );

  test.each(['chat', 'messages'] as const)('applies content rules to tool calls in a %s response, even across chunks', async (name) => {
    const route = routeOf(name);
    const gateway = await withRules(ruleOf('email', 'output', 'block'));
    const schema = { type: 'object', properties: { to: { type: 'string' } } };
    const tools =
      name === 'chat' ? [{ type: 'function', function: { name: 'send', parameters: schema } }] : [{ name: 'send', input_schema: schema }];
    for (const stream of [false, true]) {
      const answer = await gateway.call(route.path, { model: `${route.first}/tool`, ...bodies[name]('ada@example.com'), tools, stream });
      await expectRouteError(answer, route, { status: 403, code: 'guardrail_blocked', message: /email in output/ });
    }
  });

  test("doesn't hold back a stream for a content rule that only observes", async () => {
    const gateway = await withRules(ruleOf('email', 'output', 'observe'));
    const answer = await gateway.call('/v1/chat/completions', {
      model: 'one/echo+stall-after-2',
      ...bodies.chat('ada@example.com'),
      stream: true,
    });
    const reader = answer.body?.getReader();
    const first = await reader?.read();
    expect(Buffer.from(first?.value ?? []).toString()).toContain('data:');
    await reader?.cancel();
  });

  test('ends a broken stream with an error even if a blocking content rule has held it back', async () => {
    const gateway = await withRules(ruleOf('iban', 'output', 'block'));
    const answer = await gateway.call('/v1/messages', {
      model: 'three/echo+break-after-2',
      ...bodies.messages('hello to you'),
      stream: true,
    });
    const { text, isCut } = await readUntilCut(answer);
    expect([answer.status, text, isCut]).toEqual([200, expect.stringContaining('event: error'), true]);
    expect(text).not.toContain('message_stop');
    expect(await callsOf(gateway)).toMatchObject([{ outcome: 'interrupted' }]);
  });

  test('delivers a long stream completely if a blocking content rule finds no match', async () => {
    const gateway = await withRules(ruleOf('iban', 'output', 'block'));
    const answer = await gateway.call('/v1/chat/completions', { model: 'one/long-9000+crlf', ...bodies.chat('hi'), stream: true });
    const text = await answer.text();
    expect(text.match(/"content":"/g)?.length).toBeGreaterThan(8_000);
    expect(text.trimEnd().endsWith('data: [DONE]')).toBe(true);
  });
});

test('reports every mistake in content rules and changes nothing', async () => {
  const gateway = await withRules(ruleOf('email', 'input', 'block'));
  const address = `/provision/teams/${gateway.project}/rules`;
  const answer = await gateway.admin('PUT', address, {
    rules: [
      { class: 'ssn', place: 'there', action: 'block' },
      { class: 'expression', place: 'input', action: 'block', expression: '(' },
    ],
  });
  const { error } = await jsonOf<{ error: { code: string; message: string } }>(answer);
  expect([answer.status, error.code]).toEqual([400, 'bad_request']);
  for (const place of ['rules.0.class', 'rules.0.place', 'rules.1.expression']) expect(error.message).toContain(place);
  expect(await jsonOf(gateway.admin('GET', address))).toEqual({ rules: [ruleOf('email', 'input', 'block')] });
  expect((await gateway.admin('GET', '/provision/teams/nobody/rules')).status).toBe(404);
  expect((await gateway.admin('PUT', '/provision/teams/nobody/rules', { rules: [] })).status).toBe(404);
});

/** The text of a response in any format. */
function textOfAnswer(body: string, stream: boolean): string {
  if (!stream) return JSON.stringify(JSON.parse(body));
  return [...body.matchAll(/"(?:content|text|delta)":("(?:[^"\\]|\\.)*")/g)]
    .map(([, piece = '""']) => JSON.parse(piece) as string)
    .join('');
}

function withoutIds(text: string): string {
  return text
    .replace(/"(?:id|system_fingerprint)":"[^"]*"/g, '"id":""')
    .replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, '')
    .replace(/"created":\d+/g, '');
}
