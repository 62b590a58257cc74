/**
 * Tests that the demo vendor does what `npm start` and the quick start promise, using the vendors' own client
 * libraries.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import OpenAI, { toFile } from 'openai';
import { createDemoVendor, type DemoVendor } from '../../src/demo-vendor/server.ts';

let vendor: DemoVendor;
let openai: OpenAI;
beforeAll(async () => {
  vendor = await createDemoVendor();
  openai = new OpenAI({ baseURL: `${vendor.url}/v1`, apiKey: 'any', maxRetries: 0, timeout: 60_000 });
});
afterAll(() => vendor.close());

const messages = [{ role: 'user' as const, content: 'hello 🌍' }];
const schema = { type: 'object' as const, properties: { city: { type: 'string' } } };

describe('chat completions', () => {
  test('the demo vendor echoes the last user message and counts tokens', async () => {
    const plain = await openai.chat.completions.create({ model: 'echo', messages });
    expect(plain.choices[0]).toMatchObject({ finish_reason: 'stop', message: { content: 'You said: hello 🌍' } });
    expect(plain.usage).toMatchObject({ prompt_tokens: 2, completion_tokens: 5, total_tokens: 7 });
    const stream = openai.chat.completions.stream({ model: 'echo', messages, stream_options: { include_usage: true } });
    const deltas: string[] = [];
    stream.on('content.delta', ({ delta }) => deltas.push(delta));
    const whole = await stream.finalChatCompletion();
    expect(deltas).toEqual(['You ', 'said: ', 'hello ', '🌍']);
    expect(whole.usage).toMatchObject({ prompt_tokens: 2, completion_tokens: 5 });
  });

  test.each([false, true])('calls a tool that the user mentions and repeats its result (stream: %s)', async (streamed) => {
    const question = { role: 'user' as const, content: 'please get weather' };
    const tools = [{ type: 'function' as const, function: { name: 'get_weather', parameters: schema } }];
    const first = { model: 'echo', messages: [question], tools };
    const response = streamed
      ? await openai.chat.completions.stream(first).finalChatCompletion()
      : await openai.chat.completions.create(first);
    const message = response.choices[0]?.message;
    const call = message?.tool_calls?.[0];
    expect(response.choices[0]?.finish_reason).toBe('tool_calls');
    expect(call).toMatchObject({ function: { name: 'get_weather', arguments: '{"city":"please get weather"}' } });
    const result = { role: 'tool' as const, tool_call_id: call?.id ?? '', content: 'sunny' };
    const second = await openai.chat.completions.create({ ...first, messages: [question, message ?? question, result] });
    expect(second.choices[0]?.message.content).toBe('The tool said: sunny');
  });

  test('the demo vendor stops at max_tokens with finish reason `length`', async () => {
    const response = await openai.chat.completions.create({ model: 'echo', messages, max_completion_tokens: 2 });
    expect(response.choices[0]).toMatchObject({ finish_reason: 'length', message: { content: 'You said' } });
  });

  test('the demo vendor extracts memories from what users say about themselves', async () => {
    const ask = async (properties: object, content: string): Promise<unknown> => {
      const response = await openai.chat.completions.create({
        model: 'echo',
        messages: [{ role: 'user', content }],
        response_format: { type: 'json_schema', json_schema: { name: 'answer', schema: { type: 'object', properties } } },
      });
      return JSON.parse(response.choices[0]?.message.content ?? '');
    };
    const said = [{ messages: [{ role: 'user', text: 'I prefer trains. Is it late?' }] }];
    expect(await ask({ memories: { type: 'object' } }, JSON.stringify({ conversations: said }))).toMatchObject({
      memories: [{ text: 'I prefer trains.', evidence: 'I prefer trains.', kind: 'preference' }],
    });
    const consolidation = { new: [{ id: 'b', text: 'I live in Oslo.' }], known: [], facts: [] };
    expect(await ask({ merges: {}, facts: {} }, JSON.stringify(consolidation))).toMatchObject({
      facts: [{ source: 'user', relation: 'live_in', target: 'Oslo' }],
      page: '- I live in Oslo.',
    });
    expect(await ask({ kind: { enum: ['fact', 'event'] }, list: { type: 'array' } }, 'hello')).toEqual({ kind: 'fact', list: [] });
  });
});

describe('model names in the quick start', () => {
  test('the models fail-<status> and rate-limited-<seconds> return errors', async () => {
    await expect(openai.chat.completions.create({ model: 'fail-500', messages })).rejects.toBeInstanceOf(OpenAI.InternalServerError);
    const limited = await openai.chat.completions.create({ model: 'rate-limited-2', messages }).catch((error: unknown) => error);
    expect(limited).toBeInstanceOf(OpenAI.RateLimitError);
    expect((limited as InstanceType<typeof OpenAI.RateLimitError>).headers?.get('retry-after')).toBe('2');
  });

  test.each([0, 3])('the model break-after-%i aborts the stream', async (after) => {
    const body = JSON.stringify({ model: `break-after-${after}`, stream: true, messages });
    const headers = { authorization: 'Bearer any', 'content-type': 'application/json' };
    const response = await fetch(`${vendor.url}/v1/chat/completions`, { method: 'POST', headers, body });
    let text = '';
    await expect(
      (async () => {
        for await (const chunk of response.body ?? []) text += Buffer.from(chunk).toString();
      })(),
    ).rejects.toThrow();
    expect(text.split('"delta":{"content":"').length - 1).toBe(after);
    expect(text).not.toContain('[DONE]');
  });

  test('the model echo-body returns the request body', async () => {
    const response = await openai.chat.completions.create({ model: 'echo-body', messages });
    expect(JSON.parse(response.choices[0]?.message.content ?? '')).toEqual({ model: 'echo-body', messages });
  });

  test('models with any other name echo the message', async () => {
    for (const model of ['gpt-4o-mini', 'constructor', 'fail-200', 'rapid-fail-500'])
      expect((await openai.chat.completions.create({ model, messages })).choices[0]?.message.content).toBe('You said: hello 🌍');
  });
});

describe('other models in the built-in catalog', () => {
  test('returns similar embeddings for texts that share words', async () => {
    const input = ['my cat sleeps', 'the cat sleeps now', 'quarterly tax report'];
    // The library requests base64 by default.
    const packed = await openai.embeddings.create({ model: 'embed', input });
    const floats = await openai.embeddings.create({ model: 'embed', input, encoding_format: 'float' });
    expect(packed.data.map(({ embedding }) => Array.from(embedding))).toEqual(floats.data.map(({ embedding }) => embedding));
    const [cat = [], cats = [], tax = []] = floats.data.map(({ embedding }) => embedding);
    const dot = (left: number[], right: number[]) => left.reduce((sum, value, index) => sum + value * (right[index] ?? 0), 0);
    expect(dot(cat, cat)).toBeCloseTo(1, 5);
    expect(dot(cat, cats)).toBeGreaterThan(dot(cat, tax) + 0.2);
  });

  test('the demo vendor supports moderations, rerank, images and speech', async () => {
    const { results } = await openai.moderations.create({ model: 'moderation', input: ['have a nice day', 'I will attack you'] });
    expect(results.map(({ flagged }) => flagged)).toEqual([false, true]);
    const rerank = { model: 'rerank', query: 'cat sleeps', documents: ['tax report', 'the cat sleeps'] };
    expect(await openai.post('/rerank', { body: rerank })).toMatchObject({ results: [{ index: 1 }, { index: 0 }] });
    const { data } = await openai.images.generate({ model: 'image', prompt: 'a cat', n: 2, size: '1024x1024' });
    expect(data?.map(({ b64_json }) => b64_json?.slice(0, 8))).toEqual(['iVBORw0K', 'iVBORw0K']);
    const audio = await openai.audio.speech.create({ model: 'speech', input: 'one two three', voice: 'alloy' });
    expect([...new Uint8Array(await audio.arrayBuffer()).subarray(0, 2)]).toEqual([0xff, 0xfb]);
  });

  test('transcribes uploaded audio and edits uploaded images', async () => {
    const file = await toFile(new Uint8Array(64_000), 'talk.wav');
    const { text } = await openai.audio.transcriptions.create({ model: 'transcribe', file });
    expect(text).toBe('The demo vendor received 2 s of talk.wav.');
    const edited = await openai.images.edit({ model: 'image', image: await toFile(new Uint8Array(9), 'a.png'), prompt: 'a cat' });
    expect(edited.data).toHaveLength(1);
  });

  test('finishes a video after two polls', async () => {
    const headers = { 'x-goog-api-key': 'any' };
    const request = async (path: string, body?: object): Promise<Operation> =>
      (
        await fetch(`${vendor.url}/v1beta/${path}`, body ? { method: 'POST', headers, body: JSON.stringify(body) } : { headers })
      ).json() as Promise<Operation>;
    const { name } = await request('models/clip:predictLongRunning', { instances: [{ prompt: 'a cat' }] });
    expect(await request(name)).not.toHaveProperty('done');
    expect(await request(name)).not.toHaveProperty('done');
    const { response } = await request(name);
    const file = await fetch(response?.generateVideoResponse.generatedSamples[0]?.video.uri ?? '', { headers });
    expect(file.headers.get('content-type')).toBe('video/mp4');
  });
});

test('the demo vendor rejects a request without a key or with an invalid body', async () => {
  const send = async (path: string, body: string, key = 'Bearer any') =>
    (await fetch(vendor.url + path, { method: 'POST', headers: { authorization: key }, body })).status;
  const body = JSON.stringify({ model: 'echo', messages });
  expect(await send('/v1/chat/completions', body, '')).toBe(401);
  expect(await send('/v1/chat/completions', '{"model":')).toBe(400);
  expect(await send('/v1/chat/completions', JSON.stringify({ messages }))).toBe(400);
  for (const path of ['/v1/messages', '/v1/responses']) expect(await send(path, body)).toBe(404);
});

interface Operation {
  readonly name: string;
  readonly response?: {
    readonly generateVideoResponse: { readonly generatedSamples: readonly { readonly video: { readonly uri: string } }[] };
  };
}
