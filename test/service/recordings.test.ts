/**
 * Tests that responses of real vendors pass through unchanged, and that the official SDKs for the other dialect can
 * read them after translation.
 */
import { afterAll, describe, expect, test } from '@jest/globals';
import { routeCodecs } from '../../src/dialects/routes/route-codecs.ts';
import { readStream } from '../dialects/events.ts';
import { eventually, jsonOf, shareGateway } from '../support/gateway.ts';
import { readUntilCut } from '../support/read-until-cut.ts';
import { anthropicOf, openaiOf, paths } from './dialects-gateway.ts';
import { type Recording, readRecording, recordings, startRecordedVendor } from './recordings.ts';

const vendor = await startRecordedVendor();
afterAll(() => vendor.close());

const lent = shareGateway({
  database: 'any',
  yaml: () => `
providers:
  recorded-chat: { base_url: ${vendor.url}/v1, api_key: key-recorded, dialect: chat }
  recorded-chat-only: { base_url: ${vendor.url}/v1, api_key: key-recorded, dialect: chat, serves: [chat] }
  recorded-messages: { base_url: ${vendor.url}/v1, api_key: key-recorded, dialect: messages }
  recorded-artifacts: { base_url: ${vendor.url}/v1, api_key: key-recorded, dialect: chat, serves: [images], image_shape: artifacts }
`,
});

const urls = { ...paths, responses: '/v1/responses' } as const;
type TextRoute = keyof typeof urls;
const providerOf = (route: TextRoute): string => (route === 'messages' ? 'recorded-messages' : 'recorded-chat');
const modelOf = (route: TextRoute, name: string): string => `${providerOf(route)}/${name}`;
const titleOf = ({ route, name, stream }: Recording): string => `${route}/${name}${stream ? ', streamed' : ''}`;

function bodyOf(route: TextRoute, model: string, stream: boolean): object {
  if (route === 'responses') return { model, input: 'Hi', stream };
  const asking = stream && route === 'chat' ? { stream_options: { include_usage: true } } : {};
  return { model, stream, max_tokens: 100, messages: [{ role: 'user', content: 'Hi' }], ...asking };
}

const cases = recordings.map((recording) => [titleOf(recording), recording] as const);
const translated = cases.filter(([, { route }]) => route !== 'responses');

test.each(cases)('returns a recorded response byte for byte to a caller on the same route: %s', async (_title, { route, name, stream }) => {
  const response = await lent().call(urls[route], bodyOf(route, modelOf(route, name), stream));
  expect(response.status).toBe(200);
  expect(Buffer.from(await response.arrayBuffer()).toString()).toBe(readRecording(route, name, stream).toString());
});

test.each(cases)('parses the text, tool calls and token counts of a recorded response: %s', (_title, recording) => {
  const { route, name, stream, text, tools = [], tokens } = recording;
  const codec = routeCodecs[route];
  const body = readRecording(route, name, stream);
  const reader = codec.createStreamReader();
  if (stream) readStream(reader, body.toString());
  const summary = stream ? reader.summary() : codec.parseResponse(body);
  expect(summary?.turn.text).toBe(text);
  expect(summary?.turn.toolCalls.map((call) => ({ name: call.name, input: JSON.parse(call.arguments || '{}') }))).toEqual(tools);
  const { input, cached: cachedInput = 0, written: cacheWrite = 0, output } = tokens;
  expect(summary?.tokens).toEqual({ input, cachedInput, cacheWrite, cacheWrite1h: 0, output });
});

describe('a recorded response for a caller of the other dialect', () => {
  test.each(translated.filter(([, { route }]) => route === 'chat'))('lets the anthropic SDK read %s', async (_title, recording) => {
    const { name, stream, text, tools = [], end, tokens } = recording;
    const body = { model: modelOf('chat', name), max_tokens: 100, messages: [{ role: 'user' as const, content: 'Hi' }] };
    const { messages } = anthropicOf(lent());
    const message = stream ? await messages.stream(body).finalMessage() : await messages.create(body);
    expect(message.content.map((block) => (block.type === 'text' ? block.text : '')).join('')).toBe(text);
    const uses = message.content.flatMap((block) => (block.type === 'tool_use' ? [{ name: block.name, input: block.input }] : []));
    expect(uses).toEqual(tools);
    expect(message.stop_reason).toBe(end[1]);
    expect(message.usage).toMatchObject({
      input_tokens: tokens.input,
      cache_read_input_tokens: tokens.cached ?? 0,
      output_tokens: tokens.output,
    });
  });

  test.each(translated.filter(([, { route }]) => route === 'messages'))('lets the openai SDK read %s', async (_title, recording) => {
    const { name, stream, text, tools = [], end, tokens } = recording;
    const body = { model: modelOf('messages', name), messages: [{ role: 'user' as const, content: 'Hi' }] };
    const { completions } = openaiOf(lent()).chat;
    const completion = stream
      ? await completions.stream({ ...body, stream_options: { include_usage: true } }).finalChatCompletion()
      : await completions.create(body);
    const [choice] = completion.choices;
    expect(choice?.message.content ?? '').toBe(text);
    const calls = (choice?.message.tool_calls ?? []).flatMap((call) => (call.type === 'function' ? [call.function] : []));
    expect(calls.map((call) => ({ name: call.name, input: JSON.parse(call.arguments) }))).toEqual(tools);
    expect(choice?.finish_reason).toBe(end[0]);
    const prompt = tokens.input + (tokens.cached ?? 0) + (tokens.written ?? 0);
    expect(completion.usage).toMatchObject({
      prompt_tokens: prompt,
      completion_tokens: tokens.output,
      total_tokens: prompt + tokens.output,
      prompt_tokens_details: { cached_tokens: tokens.cached ?? 0 },
    });
  });
});

describe('a recorded response for a caller on the responses route', () => {
  test.each(translated)('lets the openai SDK read %s as a response', async (_title, recording) => {
    const { route, name, stream, text, tools = [], end, tokens } = recording;
    const body = { model: route === 'chat' ? `recorded-chat-only/${name}` : modelOf(route, name), input: 'Hi' };
    const { responses } = openaiOf(lent());
    const response = stream ? await responses.stream(body).finalResponse() : await responses.create(body);
    const parts = response.output.flatMap((item) => (item.type === 'message' ? item.content : []));
    expect(parts.map((part) => (part.type === 'refusal' ? part.refusal : part.text)).join('')).toBe(text);
    const calls = response.output.flatMap((item) => (item.type === 'function_call' ? [item] : []));
    expect(calls.map((call) => ({ name: call.name, input: JSON.parse(call.arguments) }))).toEqual(tools);
    const incomplete: Readonly<Record<string, string>> = { length: 'max_output_tokens', content_filter: 'content_filter' };
    const reason = incomplete[end[0]];
    expect(response.incomplete_details).toEqual(reason === undefined ? null : { reason });
    const input = tokens.input + (tokens.cached ?? 0) + (tokens.written ?? 0);
    expect(response.usage).toMatchObject({
      input_tokens: input,
      output_tokens: tokens.output,
      input_tokens_details: { cached_tokens: tokens.cached ?? 0 },
    });
    const thoughts = response.output.flatMap((item) => (item.type === 'reasoning' ? [item] : []));
    if (name === 'thinking' || name === 'reasoning')
      expect(thoughts[0]).toMatchObject({ summary: [{ type: 'summary_text' }], encrypted_content: expect.stringMatching(/^gw1\./) });
  });

  test.each(['chat', 'messages'] as const)('turns an error in a %s stream into response.failed', async (route) => {
    const model = route === 'chat' ? 'recorded-chat-only/error-in-stream' : modelOf(route, 'error-in-stream');
    const text = await (await lent().call('/v1/responses', { model, input: 'Hi', stream: true })).text();
    expect(text).toContain('"delta":"Ber"');
    expect(text.trimEnd().split('\n\n').at(-1)).toMatch(/^event: response\.failed\n/);
  });
});

describe('an error in the middle of a stream', () => {
  test.each(['chat', 'messages', 'responses'] as const)('forwards a stream error from a %s vendor on the same route', async (route) => {
    const response = await lent().call(urls[route], bodyOf(route, modelOf(route, 'error-in-stream'), true));
    const { text, isCut } = await readUntilCut(response);
    expect(isCut).toBe(route !== 'responses');
    expect(readRecording(route, 'error-in-stream', true).toString()).toContain(text.trimEnd());
    expect(text).toMatch(/server_error|overloaded_error/);
    expect(text).not.toContain('[DONE]');
  });

  test('makes the anthropic SDK throw after it yields the text before the error', async () => {
    const { messages } = anthropicOf(lent());
    const stream = messages.stream({ ...bodyFor('chat'), max_tokens: 100 });
    let text = '';
    stream.on('text', (delta) => {
      text += delta;
    });
    await expect(stream.finalMessage()).rejects.toThrow();
    expect(text).toBe('Ber');
  });

  test("closes a chat caller's connection if a messages vendor reports an error in its stream", async () => {
    const response = await lent().call(paths.chat, { ...bodyFor('messages'), stream: true });
    const { text, isCut } = await readUntilCut(response);
    expect(isCut).toBe(true);
    expect(text).toContain('"content":"Ber"');
    expect(text).not.toContain('[DONE]');
  });

  function bodyFor(route: 'chat' | 'messages') {
    return { model: modelOf(route, 'error-in-stream'), messages: [{ role: 'user' as const, content: 'Hi' }] };
  }
});

describe('an error response', () => {
  test.each([
    ['chat', 'maximum context length is 128000 tokens'],
    ['messages', 'prompt is too long: 213462 tokens > 200000 maximum'],
  ] as const)("keeps the vendor's message in a 400 from %s in both dialects", async (route, message) => {
    for (const caller of ['chat', 'messages'] as const) {
      const response = await lent().call(urls[caller], bodyOf(caller, modelOf(route, 'error-400'), false));
      expect(response.status).toBe(400);
      const { error } = await jsonOf<{ error: { message: string; type: string } }>(response);
      expect(error.message).toContain(message);
      expect(error.type).toBe(caller === 'chat' ? 'upstream_refused' : 'invalid_request_error');
    }
  });

  test.each(['chat', 'messages'] as const)("doesn't reveal the provider's key in a 401 from %s", async (route) => {
    const response = await lent().call(urls[route], bodyOf(route, modelOf(route, 'error-401'), false));
    expect(response.ok).toBe(false);
    expect(await response.text()).not.toContain('key-recorded');
  });
});

test.each([
  ['recorded-chat/openai', 'openai'],
  ['recorded-artifacts/artifacts', 'artifacts'],
])('returns a recorded image from %s as b64_json', async (model, name) => {
  const response = await lent().call('/v1/images/generations', { model, prompt: 'A pixel' });
  const { data } = await jsonOf<{ data: { b64_json: string }[] }>(response);
  const recorded = readRecording('images', name, false).toString();
  expect(data).toHaveLength(1);
  expect(data[0]?.b64_json.length).toBeGreaterThan(80);
  expect(recorded).toContain(`"${data[0]?.b64_json}"`);
});

test('stores the token counts that a recorded stream reports', async () => {
  const gateway = await lent().withProject('recorded');
  await (await gateway.call(paths.messages, bodyOf('messages', modelOf('messages', 'text'), true))).text();
  const usage = await eventually(async () => {
    const { data } = await jsonOf<{ data: { tokens: unknown }[] }>(gateway.admin('GET', '/provision/teams/recorded/calls?limit=1'));
    if (!data[0]) throw new Error('no call was recorded');
    return data[0].tokens;
  });
  expect(usage).toMatchObject({ input: 12, cached_input: 1152, cache_write: 67, output: 9 });
});
