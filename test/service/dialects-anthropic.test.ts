/**
 * Tests `@anthropic-ai/sdk` with vendors of both dialects. Only the base URL and key are changed. Also tests tool loops
 * with thinking, including the ones in `openai`.
 */
import type Anthropic from '@anthropic-ai/sdk';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type OpenAI from 'openai';
import { shareGateway } from '../support/gateway.ts';
import {
  anthropicOf,
  chatTools,
  dialects,
  lastRequest,
  messagesTools,
  openaiOf,
  pixel,
  providersYaml,
  toolInputs,
  vendors,
  webImage,
} from './dialects-gateway.ts';
import { firstTurn, startThinkingVendor, type ThinkingVendor } from './thinking-vendor.ts';

let thinking: ThinkingVendor;
beforeAll(async () => {
  thinking = await startThinkingVendor();
});
afterAll(() => thinking.stop());
beforeEach(() => void thinking.requests.splice(0));

const lent = shareGateway({
  database: 'any',
  yaml: (vendorUrl, deadUrl) => `${providersYaml(vendorUrl, deadUrl)}
  signing: { base_url: ${thinking.url}/v1, api_key: key, dialect: messages }
  reasoning: { base_url: ${thinking.url}/v1, api_key: key, dialect: chat }
models:
  reasoning/details: { takes_reasoning: details }
  reasoning/text: { takes_reasoning: text }
`,
});

type Messages = Anthropic.MessageParam[];
const question: Messages = [{ role: 'user', content: 'What is the capital of Norway?' }];
const answer = 'You said: What is the capital of Norway?';
const system = [
  { type: 'text' as const, text: 'Answer briefly.' },
  { type: 'text' as const, text: 'Be kind.', cache_control: { type: 'ephemeral' as const } },
];

describe.each(dialects)('messages on a %s vendor', (vendor) => {
  const modelOf = (model: string): string => `${vendors[vendor]}/${model}`;
  const messages = () => anthropicOf(lent()).messages;

  it('follows the system prompt on messages, plain and streamed', async () => {
    const body = { model: modelOf('echo'), max_tokens: 100, system, messages: question };
    const plain = await messages().create(body);
    expect(plain).toMatchObject({
      type: 'message',
      role: 'assistant',
      model: 'echo',
      content: [{ type: 'text', text: answer }],
      stop_reason: 'end_turn',
      stop_sequence: null,
      usage: { input_tokens: 14, output_tokens: 10, cache_read_input_tokens: 0, cache_creation_input_tokens: 0 },
    });
    const events: Anthropic.MessageStreamEvent[] = [];
    for await (const event of await messages().create({ ...body, stream: true })) events.push(event);
    const steps = events.map(({ type }) => type).filter((type, at, all) => type !== all[at - 1]);
    expect(steps).toEqual([
      'message_start',
      'content_block_start',
      'content_block_delta',
      'content_block_stop',
      'message_delta',
      'message_stop',
    ]);
    expect(events.filter(({ type }) => type === 'content_block_delta').length).toBeGreaterThan(5);
    const streamed = await messages().stream(body).finalMessage();
    expect(streamed).toMatchObject({ content: plain.content, stop_reason: 'end_turn', usage: { output_tokens: 10 } });
    expect(await messages().stream(body).finalText()).toBe(answer);
  });

  it.each([
    ['end_turn', 'echo', 100, [{ type: 'text', text: answer }]],
    ['max_tokens', 'echo', 2, [{ type: 'text', text: 'You said' }]],
    ['refusal', 'filtered', 100, []],
    ['tool_use', 'tool', 100, [{ type: 'tool_use', name: 'get_weather' }]],
  ])('reports the stop reason: %s (%s, %d)', async (reason, model, maxTokens, content) => {
    const body = { model: modelOf(model), max_tokens: maxTokens, messages: question, tools: messagesTools };
    for (const message of [await messages().create(body), await messages().stream(body).finalMessage()])
      expect(message).toMatchObject({ stop_reason: reason, content });
  });

  it.each(['tool', 'tools-parallel', 'tools-interleaved'])('runs a tool loop, plain and streamed: %s', async (model) => {
    const asked: Messages = [{ role: 'user', content: 'Oslo' }];
    const body = { model: modelOf(model), max_tokens: 100, messages: asked, tools: messagesTools };
    const expected = toolInputs('Oslo').slice(0, model === 'tool' ? 1 : 2);
    for (const message of [await messages().create(body), await messages().stream(body).finalMessage()]) {
      const uses = message.content.filter((block) => block.type === 'tool_use');
      expect(uses.map(({ name, input }) => ({ name, input }))).toEqual(expected);
      const results = uses.map(({ id, name }, at) => ({
        type: 'tool_result' as const,
        tool_use_id: id,
        content: at === 0 ? `${name} is done` : [{ type: 'text' as const, text: `${name} is done` }],
        is_error: at === 1,
      }));
      const last = await messages().create({
        ...body,
        messages: [...asked, { role: 'assistant', content: message.content }, { role: 'user', content: results }],
      });
      const text = last.content.map((block) => (block.type === 'text' ? block.text : '')).join('');
      expect([last.stop_reason, text]).toEqual(['end_turn', expect.stringMatching(/^The tool said: /)]);
      expect(text).toContain(`${expected.at(-1)?.name} is done`);
    }
  });

  it('calls the tool that the caller names, or none if tools are forbidden', async () => {
    const body = { model: modelOf('echo'), max_tokens: 100, messages: question, tools: messagesTools };
    const named = await messages().create({ ...body, tool_choice: { type: 'tool', name: 'get_time' } });
    expect(named.content).toMatchObject([{ type: 'tool_use', name: 'get_time' }]);
    const any = await messages().create({ ...body, tool_choice: { type: 'any', disable_parallel_tool_use: true } });
    expect(any.content).toMatchObject([{ type: 'tool_use', name: 'get_weather' }]);
    const none = await messages().create({ ...body, messages: [{ role: 'user', content: 'use a tool' }], tool_choice: { type: 'none' } });
    expect(none).toMatchObject({ stop_reason: 'end_turn', content: [{ type: 'text', text: 'You said: use a tool' }] });
  });

  it('accepts inline images and image URLs', async () => {
    const images = [
      { type: 'image' as const, source: { type: 'base64' as const, media_type: 'image/png' as const, data: pixel } },
      { type: 'image' as const, source: { type: 'url' as const, url: webImage } },
    ];
    const message = await messages().create({
      model: modelOf('echo'),
      max_tokens: 100,
      messages: [{ role: 'user', content: [...images, { type: 'text', text: 'Inspect' }] }],
    });
    expect(message.content).toMatchObject([{ text: 'You said: Inspect (and sent 2 attachments)' }]);
    const parts = [`data:image/png;base64,${pixel}`, webImage].map((url) => ({ type: 'image_url', image_url: { url } }));
    const seen = vendor === 'chat' ? parts : images;
    expect(lastRequest(lent()).json['messages']).toEqual([{ role: 'user', content: [...seen, { type: 'text', text: 'Inspect' }] }]);
  });

  it("makes the anthropic SDK throw its own error class with the vendor's message", async () => {
    const { UnprocessableEntityError } = (await import('@anthropic-ai/sdk')).default;
    const failure = await messages()
      .create({ model: modelOf('refuse-422'), max_tokens: 100, messages: question })
      .catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(UnprocessableEntityError);
    const message = "The request is not one that 'refuse-422' can answer.";
    expect(failure).toMatchObject({ status: 422, error: { type: 'error', error: { type: 'invalid_request_error', message } } });
  });
});

describe.each([false, true])('a tool loop with thinking (stream: %s)', (stream) => {
  const result = '12 degrees, rain';

  it("passes Claude's signed thinking back to Claude if a chat caller returns it", async () => {
    const { completions } = openaiOf(lent()).chat;
    const ask = async (messages: OpenAI.ChatCompletionMessageParam[]) => {
      const body = { model: 'signing/claude', messages, tools: chatTools, reasoning_effort: 'low', max_completion_tokens: 4_000 } as const;
      return stream ? completions.stream(body).finalChatCompletion() : completions.create(body);
    };
    const asked = { role: 'user', content: 'Weather in Oslo?' } as const;
    const message = (await ask([asked])).choices[0]?.message;
    if (!message) throw new Error('no message');
    expect(message).toMatchObject({
      // The SDK only keeps the last delta of a member that it doesn't know.
      ...(!stream && { reasoning_content: firstTurn.thinking }),
      reasoning_details: [{ type: 'reasoning.text', text: firstTurn.thinking, signature: 'c2ln' }],
      tool_calls: [{ id: 'toolu_01', function: { name: 'get_weather', arguments: '{"city":"Oslo"}' } }],
    });
    const answer = await ask([asked, message, { role: 'tool', tool_call_id: 'toolu_01', content: result }]);
    expect(answer.choices[0]).toMatchObject({ finish_reason: 'stop', message: { content: 'It rains in Oslo.' } });
    expect(thinking.requests).toMatchObject([
      { thinking: { type: 'enabled' } },
      {
        thinking: { type: 'enabled' },
        messages: [
          { role: 'user' },
          {
            role: 'assistant',
            content: [
              { type: 'thinking', thinking: firstTurn.thinking, signature: 'c2ln' },
              { type: 'tool_use', id: 'toolu_01', name: 'get_weather', input: { city: 'Oslo' } },
            ],
          },
          { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_01', content: result }] },
        ],
      },
    ]);
  });

  it.each(['details', 'text'])('sends thinking back to a chat vendor that accepts it as %s', async (form) => {
    const { messages: api } = anthropicOf(lent());
    const ask = async (messages: Anthropic.MessageParam[]) => {
      const thinks = { type: 'enabled' as const, budget_tokens: 1_024 };
      const body = { model: `reasoning/${form}`, max_tokens: 4_000, thinking: thinks, tools: messagesTools, messages };
      return stream ? api.stream(body).finalMessage() : api.create(body);
    };
    const asked = { role: 'user', content: 'Weather in Oslo?' } as const;
    const { content } = await ask([asked]);
    expect(content).toEqual([
      { type: 'thinking', thinking: firstTurn.thinking, signature: 'c2ln' },
      { type: 'tool_use', id: 'toolu_01', name: 'get_weather', input: { city: 'Oslo' } },
    ]);
    const results = [{ type: 'tool_result' as const, tool_use_id: 'toolu_01', content: result }];
    const answer = await ask([asked, { role: 'assistant', content }, { role: 'user', content: results }]);
    expect(answer).toMatchObject({ stop_reason: 'end_turn', content: [{ type: 'text', text: 'It rains in Oslo.' }] });
    expect(thinking.requests[1]).toMatchObject({
      messages: [
        { role: 'user' },
        {
          role: 'assistant',
          reasoning_content: firstTurn.thinking,
          ...(form === 'details' && { reasoning_details: [{ text: firstTurn.thinking, signature: 'c2ln' }] }),
          tool_calls: [{ id: 'toolu_01', function: { name: 'get_weather', arguments: '{"city":"Oslo"}' } }],
        },
        { role: 'tool', tool_call_id: 'toolu_01', content: result },
      ],
    });
  });

  it("forwards the vendor's error if the caller leaves out the thinking", async () => {
    const { completions } = openaiOf(lent()).chat;
    const called = {
      role: 'assistant' as const,
      tool_calls: [{ id: 't', type: 'function' as const, function: { name: 'f', arguments: '{}' } }],
    };
    const messages = [{ role: 'user' as const, content: 'Hi' }, called, { role: 'tool' as const, tool_call_id: 't', content: result }];
    await expect(completions.create({ model: 'signing/claude', stream, messages })).rejects.toMatchObject({ status: 400 });
  });
});
