/**
 * Tests the requests that a vendor of the other dialect gets. They have to be complete and in the vendor's format, and
 * can't contain any other data of the caller.
 */
import { describe, expect, it } from '@jest/globals';
import { shareGateway } from '../support/gateway.ts';
import type { Dialect } from './dialects-gateway.ts';
import { lastRequest, paths, providersYaml, translatedWays, vendors } from './dialects-gateway.ts';

const lent = shareGateway({
  database: 'any',
  yaml: (vendorUrl, deadUrl) =>
    `${providersYaml(vendorUrl, deadUrl)}models:\n  three/echo: { input: 1, output: 5 }\n  three/bounded: { input: 1, output: 5, max_output_tokens: 777 }\n  three/schemas: { supports_schema: true, thinking: adaptive }\n  three/plain: { thinking: none }\n  one/plain: { reasons: false }\n`,
});

/** Numbers that JSON.parse would change. */
const oddNumbers = '{"big":12345678901234567890,"one":1.0,"power":1e5,"small":-0.10}';
const schema = `{"type":"object","properties":{"n":{"type":"number","minimum":1.0,"maximum":12345678901234567890,"multipleOf":1e-7}},"x-order":["b","a"]}`;

/** Posts JSON text as it is, so that unusual numbers arrive. */
async function send(dialect: Dialect, text: string, headers: Record<string, string> = {}): Promise<unknown> {
  const response = await lent().call(paths[dialect], text, headers);
  const body: unknown = await response.json();
  expect([response.status, body]).toEqual([200, expect.anything()]);
  return body;
}

const user = '{"role":"user","content":"hi"}';

describe('a chat request to a messages vendor', () => {
  it('preserves numbers in tool schemas, arguments and parameters', async () => {
    const call = `{"id":"call_1","type":"function","function":{"name":"f","arguments":${JSON.stringify(oddNumbers)}}}`;
    const result = '{"role":"tool","tool_call_id":"call_1","content":"{\\"x\\":1.0}"}';
    const tools = `[{"type":"function","function":{"name":"f","parameters":${schema}}}]`;
    const messages = `[${user},{"role":"assistant","content":null,"tool_calls":[${call}]},${result}]`;
    await send('chat', `{"model":"three/echo","max_tokens":50,"temperature":0.70,"tools":${tools},"messages":${messages}}`);
    const { text, json } = lastRequest(lent());
    expect(text).toContain(`"input_schema":${schema}`);
    expect(text).toContain(`"input":${oddNumbers}`);
    expect(text).toContain('"temperature":0.70');
    expect(json['messages']).toEqual([
      { role: 'user', content: [{ type: 'text', text: 'hi' }] },
      { role: 'assistant', content: [expect.objectContaining({ type: 'tool_use', id: 'call_1', name: 'f' })] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'call_1', content: '{"x":1.0}' }] },
    ]);
  });

  it.each([
    ['no limit', 'three/echo', '', 4_096],
    ['no limit', 'three/bounded', '', 777],
    ['null', 'three/bounded', '"max_tokens":null,', 777],
    ['max_tokens', 'three/bounded', '"max_tokens":12,', 12],
    ['max_tokens and max_completion_tokens', 'three/bounded', '"max_tokens":12,"max_completion_tokens":13,', 13],
  ])('sends an output limit if the caller sets %s (%s)', async (_limits, model, bounds, maxTokens) => {
    await send('chat', `{"model":"${model}",${bounds}"messages":[${user}]}`);
    expect(lastRequest(lent()).json['max_tokens']).toBe(maxTokens);
  });

  it('requests JSON and thinking in the format that the model supports', async () => {
    const format = { type: 'json_schema', json_schema: { name: 'n', schema: { type: 'object', properties: { n: { type: 'string' } } } } };
    const askFor = async (model: string, options: object): Promise<Record<string, unknown>> => {
      await send('chat', JSON.stringify({ model, max_tokens: 9_000, messages: [{ role: 'user', content: 'hi' }], ...options }));
      return lastRequest(lent()).json;
    };
    const schemas = await askFor('three/schemas', { response_format: format, reasoning_effort: 'medium' });
    expect(schemas).toMatchObject({
      output_config: { format: { type: 'json_schema', schema: format.json_schema.schema }, effort: 'medium' },
      thinking: { type: 'adaptive' },
    });
    expect(schemas).not.toHaveProperty('tools');
    const tools = await askFor('three/echo', { response_format: format });
    expect(tools).toMatchObject({ tool_choice: { type: 'tool' } });
    expect(tools).not.toHaveProperty('output_config');
    const thinking = await askFor('three/echo', { reasoning_effort: 'medium' });
    expect(thinking).toMatchObject({ thinking: { type: 'enabled', budget_tokens: 4_096 } });
    expect(await askFor('three/plain', { reasoning_effort: 'medium' })).not.toHaveProperty('thinking');
  });

  it('translates all other parameters of a chat request', async () => {
    await send(
      'chat',
      JSON.stringify({
        model: 'three/echo',
        messages: [
          { role: 'system', content: 'one' },
          { role: 'user', content: 'hi', name: 'Ada' },
          { role: 'developer', content: [{ type: 'text', text: 'two' }] },
          { role: 'user', content: [{ type: 'text', text: 'again' }] },
        ],
        temperature: 1.5,
        stop: 'END',
        user: 'ada',
        n: 1,
        seed: 7,
        store: true,
        metadata: { a: 'b' },
        stream_options: null,
      }),
    );
    expect(lastRequest(lent())).toMatchObject({ path: '/v1/messages' });
    expect(lastRequest(lent()).json).toEqual({
      model: 'echo',
      max_tokens: 4_096,
      system: [
        { type: 'text', text: 'one' },
        { type: 'text', text: 'two' },
      ],
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'hi' },
            { type: 'text', text: 'again' },
          ],
        },
      ],
      temperature: 1,
      stop_sequences: ['END'],
      metadata: { user_id: 'ada' },
    });
  });
});

describe('a messages request to a chat vendor', () => {
  it.each([
    ['one/echo', 'medium'],
    ['one/plain', undefined],
  ])('maps the thinking budget for %s to the reasoning effort %s', async (model, effort) => {
    const thinking = { type: 'enabled', budget_tokens: 5_000 };
    await send('messages', JSON.stringify({ model, max_tokens: 9_000, thinking, messages: [{ role: 'user', content: 'hi' }] }));
    expect(lastRequest(lent()).json['reasoning_effort']).toBe(effort);
  });

  it('preserves numbers in tool schemas, arguments and parameters', async () => {
    const use = `{"type":"tool_use","id":"toolu_1","name":"f","input":${oddNumbers}}`;
    const result = '{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"1.0"}],"is_error":true}';
    const tools = `[{"name":"f","input_schema":${schema}}]`;
    const messages = `[${user},{"role":"assistant","content":[${use}]},{"role":"user","content":[${result},{"type":"text","text":"so?"}]}]`;
    await send('messages', `{"model":"one/echo","max_tokens":50,"temperature":0.70,"tools":${tools},"messages":${messages}}`);
    const { text, json } = lastRequest(lent());
    expect(text).toContain(`"parameters":${schema}`);
    expect(text).toContain(`"arguments":${JSON.stringify(oddNumbers)}`);
    expect(text).toContain('"temperature":0.70');
    expect(json['messages']).toEqual([
      { role: 'user', content: 'hi' },
      { role: 'assistant', content: null, tool_calls: [expect.objectContaining({ id: 'toolu_1', type: 'function' })] },
      { role: 'tool', tool_call_id: 'toolu_1', content: 'Error: 1.0' },
      { role: 'user', content: 'so?' },
    ]);
  });

  it('translates all other parameters of a messages request', async () => {
    await send(
      'messages',
      JSON.stringify({
        model: 'one/echo',
        max_tokens: 60,
        system: [
          { type: 'text', text: 'one', cache_control: { type: 'ephemeral' } },
          { type: 'text', text: 'two' },
        ],
        messages: [
          { role: 'user', content: [{ type: 'text', text: 'hi', cache_control: { type: 'ephemeral' } }] },
          {
            role: 'assistant',
            content: [
              { type: 'thinking', thinking: 'hm', signature: 'x' },
              { type: 'text', text: 'yes' },
            ],
          },
          { role: 'user', content: 'again' },
        ],
        top_k: 5,
        top_p: 0.9,
        stop_sequences: ['END'],
        metadata: { user_id: 'ada' },
        service_tier: 'auto',
      }),
    );
    expect(lastRequest(lent())).toMatchObject({ path: '/v1/chat/completions' });
    expect(lastRequest(lent()).json).toEqual({
      model: 'echo',
      max_tokens: 60,
      messages: [
        { role: 'system', content: 'one\n\ntwo' },
        { role: 'user', content: 'hi' },
        { role: 'assistant', content: 'yes' },
        { role: 'user', content: 'again' },
      ],
      top_p: 0.9,
      stop: ['END'],
      user: 'ada',
    });
  });

  it('asks the vendor for usage in a stream', async () => {
    const response = await lent().call(paths.messages, { model: 'one/echo', max_tokens: 5, stream: true, messages: [JSON.parse(user)] });
    expect(await response.text()).toContain('message_stop');
    expect(lastRequest(lent()).json).toMatchObject({ stream: true, stream_options: { include_usage: true } });
  });
});

describe.each(translatedWays)('headers from a $caller caller to a $vendor vendor', ({ caller, vendor }) => {
  const row = { chat: { authorization: 'Bearer key-one' }, messages: { 'x-api-key': 'key-three', 'x-row': 'of three' } };
  const own = { chat: { 'openai-beta': 'b1' }, messages: { 'anthropic-beta': 'a1' } };
  const body = (stream: boolean): string => `{"model":"${vendors[vendor]}/echo","max_tokens":50,"stream":${stream},"messages":[${user}]}`;

  it.each([false, true])("forwards only headers of the vendor's dialect (stream: %s)", async (stream) => {
    const response = await lent().call(paths[caller], body(stream), {
      'x-gateway-source': 'mailer',
      'x-gateway-task-id': 't-1',
      'x-gateway-memory-subject': 'ada',
      'x-forwarded-for': '10.1.2.3',
      'user-agent': 'caller/1',
      cookie: 'a=b',
      'idempotency-key': 'i1',
      'anthropic-version': '2023-06-01',
      ...own.chat,
      ...own.messages,
    });
    await response.text();
    const { headers, text } = lastRequest(lent());
    expect(headers).toEqual({
      host: expect.any(String),
      connection: 'keep-alive',
      'content-type': 'application/json',
      'content-length': String(Buffer.byteLength(text)),
      accept: stream ? 'text/event-stream' : 'application/json',
      'accept-encoding': 'identity',
      'idempotency-key': 'i1',
      ...(vendor === 'messages' ? { 'anthropic-version': '2023-06-01' } : {}),
      ...own[vendor],
      ...row[vendor],
    });
    expect(JSON.stringify(headers) + text).not.toContain(lent().key);
  });

  it("sends the version header of the vendor's dialect", async () => {
    await send(caller, body(false), { 'anthropic-version': '2099-01-01' });
    expect(lastRequest(lent()).headers['anthropic-version']).toBe(vendor === 'messages' ? '2023-06-01' : undefined);
  });
});
