/** Tests the demo vendor with the vendors' official client libraries. */
import Anthropic from '@anthropic-ai/sdk';
import { describe, expect, test } from '@jest/globals';
import OpenAI from 'openai';
import type { ScriptedVendor } from './server.ts';
import { withVendor } from './with-vendor.ts';

const openai = (vendor: ScriptedVendor) => new OpenAI({ baseURL: `${vendor.url}/v1`, apiKey: 'any', maxRetries: 0, timeout: 60_000 });
const anthropic = (vendor: ScriptedVendor) => new Anthropic({ baseURL: vendor.url, apiKey: 'any', maxRetries: 0, timeout: 60_000 });

const hello = [{ role: 'user' as const, content: 'hello 🌍' }];
const weatherSchema = { type: 'object' as const, properties: { city: { type: 'string' }, days: { type: 'integer' } } };
const chatTools = [{ type: 'function' as const, function: { name: 'get_weather', parameters: weatherSchema } }];
const messagesTools = [{ name: 'get_weather', input_schema: weatherSchema }];

describe('the scripted vendor and the openai SDK on chat', () => {
  test('returns a plain response that echoes the last user message', () =>
    withVendor(async (vendor) => {
      const response = await openai(vendor).chat.completions.create({
        model: 'echo',
        messages: [{ role: 'system', content: 'be kind' }, ...hello],
      });
      expect(response.choices[0]?.message.content).toBe('You said: hello 🌍');
      expect(response.choices[0]?.finish_reason).toBe('stop');
      expect(response.usage).toMatchObject({ prompt_tokens: 4, completion_tokens: 5, total_tokens: 9 });
    }));

  test('streams the same response, with usage at the end on request', () =>
    withVendor(async (vendor) => {
      const stream = openai(vendor).chat.completions.stream({ model: 'echo', messages: hello, stream_options: { include_usage: true } });
      const deltas: string[] = [];
      stream.on('content.delta', ({ delta }) => deltas.push(delta));
      const whole = await stream.finalChatCompletion();
      expect(deltas).toEqual(['You ', 'said: ', 'hello ', '🌍']);
      expect(whole.choices[0]?.message.content).toBe('You said: hello 🌍');
      expect(whole.usage).toMatchObject({ prompt_tokens: 2, completion_tokens: 5 });
    }));

  test('reads content parts and counts their tokens', () =>
    withVendor(async (vendor) => {
      const content = [
        { type: 'text' as const, text: 'see' },
        { type: 'image_url' as const, image_url: { url: 'https://example.com/a.png' } },
      ];
      const response = await openai(vendor).chat.completions.create({ model: 'echo', messages: [{ role: 'user', content }] });
      expect(response.choices[0]?.message.content).toBe('You said: see (and sent 1 attachment)');
    }));

  test.each([false, true])('calls a tool that the user names and repeats its result (stream: %s)', (streamed) =>
    withVendor(async (vendor) => {
      const client = openai(vendor);
      const question = { role: 'user' as const, content: 'please get weather' };
      const first = { model: 'echo', messages: [question], tools: chatTools };
      const response = streamed
        ? await client.chat.completions.stream(first).finalChatCompletion()
        : await client.chat.completions.create(first);
      const choice = response.choices[0];
      const call = choice?.message.tool_calls?.[0];
      expect(choice?.finish_reason).toBe('tool_calls');
      expect(call).toMatchObject({ type: 'function', function: { name: 'get_weather' } });
      expect(call?.type === 'function' && JSON.parse(call.function.arguments)).toEqual({ city: 'please get weather', days: 1 });

      const messages = [question, choice?.message ?? question, { role: 'tool' as const, tool_call_id: call?.id ?? '', content: 'sunny' }];
      const second = await client.chat.completions.create({ model: 'echo', messages, tools: chatTools });
      expect(second.choices[0]?.message.content).toBe('The tool said: sunny');
    }),
  );

  test.each(['tools-parallel', 'tools-interleaved'])('returns two tool calls in one stream (%s)', (model) =>
    withVendor(async (vendor) => {
      const response = await openai(vendor).chat.completions.stream({ model, messages: hello, tools: chatTools }).finalChatCompletion();
      const calls = response.choices[0]?.message.tool_calls ?? [];
      expect(calls.map((call) => call.type === 'function' && JSON.parse(call.function.arguments))).toEqual([
        { city: 'hello 🌍', days: 1 },
        { city: 'hello 🌍', days: 1 },
      ]);
      expect(new Set(calls.map(({ id }) => id)).size).toBe(2);
    }),
  );

  test('fills a JSON schema with the simplest values', () =>
    withVendor(async (vendor) => {
      const schema = { type: 'object', properties: { memories: { type: 'array' }, kind: { enum: ['fact', 'event'] } } };
      const response = await openai(vendor).chat.completions.create({
        model: 'echo',
        messages: hello,
        response_format: { type: 'json_schema', json_schema: { name: 'memories', schema } },
      });
      expect(JSON.parse(response.choices[0]?.message.content ?? '')).toEqual({ memories: [], kind: 'fact' });
    }));

  test('stops an echo at max_tokens with finish reason `length`', () =>
    withVendor(async (vendor) => {
      const response = await openai(vendor).chat.completions.create({ model: 'echo', messages: hello, max_completion_tokens: 2 });
      expect(response.choices[0]).toMatchObject({ finish_reason: 'length', message: { content: 'You said' } });
    }));
});

describe('the scripted vendor and the anthropic SDK', () => {
  test('returns a plain message', () =>
    withVendor(async (vendor) => {
      const response = await anthropic(vendor).messages.create({ model: 'echo', max_tokens: 100, system: 'be kind', messages: hello });
      expect(response.content).toEqual([{ type: 'text', text: 'You said: hello 🌍' }]);
      expect(response).toMatchObject({ stop_reason: 'end_turn', usage: { input_tokens: 4, output_tokens: 5 } });
    }));

  test('streams events that add up to the plain message', () =>
    withVendor(async (vendor) => {
      const stream = anthropic(vendor).messages.stream({ model: 'echo+cached-7', max_tokens: 100, messages: hello });
      const types: string[] = [];
      stream.on('streamEvent', ({ type }) => types.push(type));
      const whole = await stream.finalMessage();
      expect(whole.content).toMatchObject([{ type: 'text', text: 'You said: hello 🌍' }]);
      expect(whole.usage).toMatchObject({ input_tokens: 2, cache_read_input_tokens: 7, output_tokens: 5 });
      expect(types.filter((type) => type !== 'ping')).toEqual([
        'message_start',
        'content_block_start',
        ...Array.from({ length: 4 }, () => 'content_block_delta'),
        'content_block_stop',
        'message_delta',
        'message_stop',
      ]);
    }));

  test.each([false, true])('calls a tool that the user names and repeats its result (stream: %s)', (streamed) =>
    withVendor(async (vendor) => {
      const client = anthropic(vendor);
      const question = { role: 'user' as const, content: 'use get_weather' };
      const first = { model: 'echo', max_tokens: 100, messages: [question], tools: messagesTools };
      const response = streamed ? await client.messages.stream(first).finalMessage() : await client.messages.create(first);
      expect(response.stop_reason).toBe('tool_use');
      expect(response.content).toMatchObject([{ type: 'tool_use', name: 'get_weather', input: { city: 'use get_weather', days: 1 } }]);

      const id = response.content[0]?.type === 'tool_use' ? response.content[0].id : '';
      const result = { role: 'user' as const, content: [{ type: 'tool_result' as const, tool_use_id: id, content: 'sunny' }] };
      const messages = [question, { role: 'assistant' as const, content: response.content }, result];
      const second = await client.messages.create({ ...first, messages });
      expect(second.content).toMatchObject([{ type: 'text', text: 'The tool said: sunny' }]);
    }),
  );

  test('returns two tool calls in one stream', () =>
    withVendor(async (vendor) => {
      const response = await anthropic(vendor)
        .messages.stream({ model: 'tools-parallel', max_tokens: 100, messages: hello })
        .finalMessage();
      expect(response.content).toMatchObject([
        { type: 'tool_use', name: 'lookup', input: { query: 'hello 🌍' } },
        { type: 'tool_use', name: 'lookup', input: { query: 'hello 🌍' } },
      ]);
    }));

  test('makes the library raise its own errors for 401, 429 and a broken stream', () =>
    withVendor(async (vendor) => {
      const client = anthropic(vendor);
      const ask = (model: string) => client.messages.create({ model, max_tokens: 10, messages: hello });
      await expect(ask('fail-401')).rejects.toBeInstanceOf(Anthropic.AuthenticationError);
      await expect(ask('rate-limited-3')).rejects.toBeInstanceOf(Anthropic.RateLimitError);
      const broken = client.messages.stream({ model: 'error-after-2', max_tokens: 10, messages: hello });
      await expect(broken.finalMessage()).rejects.toThrow('Overloaded');
    }));
});

describe('the scripted vendor and the openai SDK on other routes', () => {
  test('returns similar embeddings for texts with common words', () =>
    withVendor(async (vendor) => {
      const { embeddings } = openai(vendor);
      const input = ['my cat sleeps', 'the cat sleeps now', 'quarterly tax report'];
      // By default, the library asks for base64.
      const packed = await embeddings.create({ model: 'embed', input });
      const floats = await embeddings.create({ model: 'embed', input, encoding_format: 'float' });
      expect(packed.data.map(({ embedding }) => Array.from(embedding))).toEqual(floats.data.map(({ embedding }) => embedding));
      const [cat = [], cats = [], tax = []] = floats.data.map(({ embedding }) => embedding);
      expect(dot(cat, cat)).toBeCloseTo(1, 5);
      expect(dot(cat, cats)).toBeGreaterThan(dot(cat, tax) + 0.2);
      expect(floats.usage).toEqual({ prompt_tokens: 14, total_tokens: 14 });
      const short = await embeddings.create({ model: 'embed', input: [[1, 2, 3]], dimensions: 8 });
      expect(short.data[0]?.embedding).toHaveLength(8);
    }));

  test('returns plain and streamed responses', () =>
    withVendor(async (vendor) => {
      const client = openai(vendor);
      const plain = await client.responses.create({ model: 'echo+cached-3', input: 'hello 🌍' });
      expect(plain.output_text).toBe('You said: hello 🌍');
      expect(plain.usage).toMatchObject({ input_tokens: 5, input_tokens_details: { cached_tokens: 3 }, output_tokens: 5 });

      const stream = client.responses.stream({ model: 'echo', input: [{ role: 'user', content: 'hello 🌍' }] });
      const sequence: number[] = [];
      stream.on('event', (event) => sequence.push(event.sequence_number));
      const whole = await stream.finalResponse();
      expect(whole.output_text).toBe('You said: hello 🌍');
      expect(whole.status).toBe('completed');
      expect(sequence).toEqual(sequence.map((_, index) => index));
    }));

  test.each(['thinks', 'thinks+tool'])('returns the reasoning before the text from %s', (model) =>
    withVendor(async (vendor) => {
      const thought = 'The user said: hello 🌍';
      const { chat, responses } = openai(vendor);
      const { choices } = await chat.completions.create({ model, messages: hello });
      expect(choices[0]?.message).toMatchObject({ reasoning_content: thought });
      let streamed = '';
      for await (const chunk of await chat.completions.create({ model, messages: hello, stream: true }))
        streamed += (chunk.choices[0]?.delta as { reasoning_content?: string } | undefined)?.reasoning_content ?? '';
      expect(streamed).toBe(thought);

      const request = { model, max_tokens: 100, messages: hello };
      const message = await anthropic(vendor).messages.create(request);
      expect(message.content).toMatchObject([{ type: 'thinking', thinking: thought }, { type: model === 'thinks' ? 'text' : 'tool_use' }]);
      const { content } = await anthropic(vendor).messages.stream(request).finalMessage();
      expect(content.map(({ type }) => type)).toEqual(message.content.map(({ type }) => type));
      expect(content[0]).toEqual(message.content[0]);

      const response = await responses.create({ model, input: 'hello 🌍' });
      expect(response.output).toMatchObject([{ type: 'reasoning', summary: [{ text: thought }] }, {}]);
      const whole = await responses.stream({ model, input: 'hello 🌍' }).finalResponse();
      expect(whole.output[0]).toMatchObject({ type: 'reasoning', summary: [{ text: thought }] });
      expect(whole.output[1]?.type).toBe(response.output[1]?.type);
    }),
  );

  test('responds to the result of a function call', () =>
    withVendor(async (vendor) => {
      const client = openai(vendor);
      const tools = [{ type: 'function' as const, name: 'get_weather', parameters: weatherSchema, strict: false }];
      const first = await client.responses.stream({ model: 'echo', input: 'get weather', tools }).finalResponse();
      const call = first.output[0];
      expect(call).toMatchObject({ type: 'function_call', name: 'get_weather', arguments: '{"city":"get weather","days":1}' });
      const output = {
        type: 'function_call_output' as const,
        call_id: call?.type === 'function_call' ? call.call_id : '',
        output: 'sunny',
      };
      const second = await client.responses.create({ model: 'echo', input: [output], previous_response_id: first.id, tools });
      expect(second.output_text).toBe('The tool said: sunny');
    }));

  test('flags the listed words in moderations', () =>
    withVendor(async (vendor) => {
      const { results } = await openai(vendor).moderations.create({ model: 'moderation', input: ['have a nice day', 'I will attack you'] });
      expect(results.map(({ flagged }) => flagged)).toEqual([false, true]);
      expect(results[1]?.categories.violence).toBe(true);
    }));
});

function dot(left: readonly number[], right: readonly number[]): number {
  return left.reduce((sum, value, index) => sum + value * (right[index] ?? 0), 0);
}
