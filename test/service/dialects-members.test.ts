/**
 * Tests what callers learn about request fields that a vendor of the other dialect doesn't get. Also tests
 * conversations with Anthropic's SDK.
 */
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { JsonObject } from '../../src/core/json/narrow.ts';
import type { TestGateway } from '../support/gateway.ts';
import { jsonOf, shareGateway } from '../support/gateway.ts';
import { type LocalServer, startLocalServer } from '../support/local-server.ts';
import { anthropicOf, citySchema, lastRequest, paths } from './dialects-gateway.ts';

/**
 * A vendor that keeps threads, but has lost all of them. It responds to a `continue` with the error body of Anthropic's
 * API.
 */
let forgetful: LocalServer;
const forgetfulRequests: JsonObject[] = [];
beforeAll(async () => {
  forgetful = await startLocalServer(async (request, response) => {
    const body = JSON.parse(Buffer.concat(await request.toArray()).toString());
    forgetfulRequests.push(body);
    const isLost = body.thread?.type === 'continue';
    const usage = { input_tokens: 1, output_tokens: 1 };
    const call = { type: 'tool_use', id: 't', name: 'get_weather', input: {} };
    const content = body.messages.length > 1 ? [{ type: 'text', text: 'It snows.' }] : [call];
    const stop = body.messages.length > 1 ? 'end_turn' : 'tool_use';
    const message = {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      model: body.model,
      content,
      stop_reason: stop,
      stop_sequence: null,
      usage,
    };
    const details = { error_code: 'thread_not_found' };
    const error = { type: 'error', error: { type: 'invalid_request_error', message: 'thread not found', details } };
    response.writeHead(isLost ? 400 : 200, { 'content-type': 'application/json' }).end(JSON.stringify(isLost ? error : message));
  });
});
afterAll(() => forgetful.close());

const lent = shareGateway({
  database: 'any',
  cache: true,
  yaml: (vendorUrl) => `
providers:
  one: { base_url: ${vendorUrl}/v1, api_key: key-one, dialect: chat, serves: [chat] }
  native: { base_url: ${vendorUrl}/v1, api_key: key-native, dialect: chat, serves: [responses] }
  three: { base_url: ${vendorUrl}/v1, api_key: key-three, dialect: messages }
  forgetful: { base_url: ${forgetful.url}/v1, api_key: key-forgetful, dialect: messages }
tiers:
  chat-first: [one/echo, native/echo]
  native-first: [native/fail-500, one/echo]
`,
});

const user = { role: 'user', content: 'hi' };
const changesOf = ({ headers }: Response) => [headers.get('x-gateway-dropped'), headers.get('x-gateway-adjusted')];

describe("message threads of Anthropic's tool runner", () => {
  const turnsOf = (place: string) => [{ role: 'user' as const, content: `The weather in ${place}, with get_weather` }];
  const tools = [betaTool({ name: 'get_weather', description: 'Weather', inputSchema: citySchema, run: () => 'snow' })];

  it.each([false, true])('sends a chat vendor the whole conversation of a thread (streamed: %s)', async (stream) => {
    const gateway = lent();
    // We use a different text each time, because the first turn would otherwise come from the cache.
    const turns = turnsOf(stream ? 'Oslo' : 'Bergen');
    const sent = gateway.vendor.requests().length;
    const runner = anthropicOf(gateway).beta.messages.toolRunner({ model: 'one/tool', max_tokens: 300, messages: turns, tools, stream });
    expect(JSON.stringify((await runner.runUntilDone()).content)).toContain('snow');
    const bodies = gateway.vendor
      .requests()
      .slice(sent)
      .map(({ body }) => JSON.parse(body.toString()));
    expect(bodies.map(({ messages }) => messages.map(({ role }: { role: string }) => role))).toEqual([
      ['user'],
      ['user', 'assistant', 'tool'],
    ]);
    expect(bodies[1].messages).toMatchObject([turns[0], { tool_calls: [{ function: { name: 'get_weather' } }] }, { content: 'snow' }]);
  });

  it('resends the whole conversation if the vendor has lost the thread', async () => {
    const runner = anthropicOf(lent()).beta.messages.toolRunner({
      model: 'forgetful/claude',
      max_tokens: 300,
      messages: turnsOf('Oslo'),
      tools,
    });
    expect((await runner.runUntilDone()).content).toEqual([{ type: 'text', text: 'It snows.' }]);
    expect(forgetfulRequests.map(({ thread, messages }) => [thread, (messages as unknown[]).length])).toEqual([
      [{ type: 'create' }, 1],
      [{ type: 'continue', previous_message_id: 'msg_1' }, 1],
      [{ type: 'create' }, 3],
    ]);
  });

  it("returns 400 for a thread that can't be continued on a chat vendor", async () => {
    const thread = { type: 'continue', previous_message_id: 'msg_1' };
    const answer = await lent().call(paths.messages, { model: 'one/echo', max_tokens: 9, messages: [user], thread });
    expect([answer.status, await jsonOf(answer)]).toEqual([
      400,
      {
        type: 'error',
        error: {
          type: 'invalid_request_error',
          message: "thread: this model's vendor does not store threads; send the whole conversation",
          param: 'thread',
          details: { error_code: 'thread_unsupported_request', unsupported: ['thread'] },
        },
      },
    ]);
  });
});

describe('the headers for dropped parameters', () => {
  it('lists the dropped parameters of a chat call, even for cache hits', async () => {
    const ask = (stream: boolean) =>
      lent().call(paths.chat, { model: 'three/echo', messages: [{ ...user, name: 'Ada' }], seed: 7, 'odd name\n': 1, n: 1, stream });
    const answers = [await ask(false), await ask(true), await ask(false)];
    expect(answers.map(({ headers }) => headers.get('x-gateway-cache'))).toEqual(['miss', 'hit', 'hit']);
    for (const answer of answers) expect(changesOf(answer)).toEqual(['messages.name, seed, odd%20name%0A', null]);
  });

  it('lists the parameters whose values were adjusted for the vendor', async () => {
    const body = { model: 'three/echo', messages: [user], temperature: 1.5, reasoning_effort: 'minimal' };
    expect(changesOf(await lent().call(paths.chat, body))).toEqual([null, 'temperature']);
    const thinking = { ...body, reasoning_effort: 'max', max_tokens: 9_000 };
    expect(changesOf(await lent().call(paths.chat, thinking))).toEqual(['temperature', 'reasoning_effort']);
    expect(lastRequest(lent()).json).toMatchObject({ thinking: { budget_tokens: 4_096 } });
  });

  it('lists the dropped parameters of a messages call', async () => {
    const text = { type: 'text', text: 'hi', cache_control: { type: 'ephemeral' } };
    const body = {
      model: 'one/echo',
      max_tokens: 9,
      messages: [{ role: 'user', content: [text] }],
      top_k: 5,
      output_config: { effort: 'max' },
    };
    expect(changesOf(await lent().call(paths.messages, body))).toEqual(['messages.content.cache_control, top_k', 'output_config.effort']);
  });

  it('lists the dropped parameters of a responses call', async () => {
    const body = {
      model: 'three/echo',
      input: 'hi',
      store: true,
      reasoning: { effort: 'max' },
      text: { verbosity: 'low' },
      temperature: 1,
    };
    const dropped = 'store, text.verbosity, temperature';
    expect(changesOf(await lent().call('/v1/responses', { ...body, max_output_tokens: 40_000 }))).toEqual([dropped, 'reasoning.effort']);
    const ofChat = await lent().call('/v1/responses', { ...body, model: 'one/echo', max_output_tokens: 40_000 });
    expect(changesOf(ofChat)).toEqual(['store, text.verbosity', null]);
  });

  it("doesn't list dropped parameters if no translation is needed", async () => {
    expect(changesOf(await lent().call(paths.chat, { model: 'one/echo', messages: [user], seed: 7 }))).toEqual([null, null]);
  });

  it('truncates a very long list of dropped parameters', async () => {
    const unknown = Object.fromEntries(Array.from({ length: 5_000 }, (_, n) => [`member_${n}`, 1]));
    const [dropped] = changesOf(await lent().call(paths.chat, { model: 'three/echo', messages: [user], ...unknown }));
    expect(dropped).toMatch(/^member_0, .*, member_39, and 4960 more$/);
  });
});

describe('a web search tool alongside functions', () => {
  const tools = [{ type: 'function', name: 'f', parameters: { type: 'object' } }, { type: 'web_search' }];
  const ask = async (gateway: TestGateway, model: string) => {
    const answer = await gateway.call('/v1/responses', { model, input: 'hi', tools });
    return [answer.status, answer.headers.get('x-gateway-model'), ...changesOf(answer)];
  };

  it('sends a web search tool to a model that supports it', async () => {
    expect(await ask(lent(), 'chat-first')).toEqual([200, 'native/echo', null, null]);
  });

  it('drops the web search tool if no model supports it', async () => {
    expect(await ask(lent(), 'one/echo')).toEqual([200, 'one/echo', 'tools.web_search', null]);
    expect(await ask(lent(), 'native-first')).toEqual([200, 'one/echo', 'tools.web_search', null]);
  });
});
