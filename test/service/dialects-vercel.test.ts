/**
 * Tests Vercel's `ai` and its OpenAI and Anthropic providers with vendors of both dialects. Only the base URL and key
 * are changed.
 */
import { describe, expect, it } from '@jest/globals';
import type { LanguageModel, ModelMessage, ToolSet } from 'ai';
import { APICallError, embed, embedMany, generateText, isStepCount, jsonSchema, Output, streamText, tool } from 'ai';
import { shareGateway } from '../support/gateway.ts';
import {
  citySchema,
  lastCall,
  lastRequest,
  pixel,
  providersYaml,
  timeSchema,
  vendors,
  vercelAnthropicOf,
  vercelOpenaiOf,
  ways,
  webImage,
} from './dialects-gateway.ts';

const lent = shareGateway({ database: 'any', yaml: providersYaml });

const answer = 'You said: What is the capital of Norway?';
const common = { maxRetries: 0, maxOutputTokens: 500 };
const asked = { ...common, system: 'Answer briefly.', prompt: 'What is the capital of Norway?' };
// We need the two assertions because the library's types don't support `exactOptionalPropertyTypes`.
const tools = {
  get_weather: tool({ description: 'Weather of a city', inputSchema: jsonSchema<{ city: string; days: number }>(citySchema) }),
  get_time: tool({ description: 'Time of a zone', inputSchema: jsonSchema<{ zone: string }>(timeSchema) }),
} as ToolSet;
const ran: string[] = [];
const runningTools = {
  get_weather: {
    ...tools.get_weather,
    execute: ({ city, days }: { city: string; days: number }) => {
      ran.push(`weather ${city} ${days}`);
      return Promise.resolve({ degrees: -3 });
    },
  },
  get_time: {
    ...tools.get_time,
    execute: ({ zone }: { zone: string }) => {
      ran.push(`time ${zone}`);
      return Promise.resolve('noon');
    },
  },
} as ToolSet;

const routes: readonly (readonly [title: string, modelOf: (model: string) => LanguageModel])[] = [
  ...ways.map(({ caller, vendor }): readonly [string, (model: string) => LanguageModel] => [
    `its ${caller} provider on a ${vendor} vendor`,
    (model) => {
      const id = `${vendors[vendor]}/${model}`;
      return caller === 'chat' ? vercelOpenaiOf(lent()).chat(id) : vercelAnthropicOf(lent())(id);
    },
  ]),
  ['its responses provider on a chat vendor', (model) => vercelOpenaiOf(lent()).responses(`one/${model}`)],
];

describe.each(routes)('%s', (title, modelOf) => {
  it('follows the system prompt through the AI SDK, plain and streamed', async () => {
    const plain = await generateText({ model: modelOf('cached-30'), ...asked });
    expect([plain.text, plain.finishReason]).toEqual([answer, 'stop']);
    const streamed = streamText({ model: modelOf('cached-30'), ...asked });
    const pieces: string[] = [];
    for await (const piece of streamed.textStream) pieces.push(piece);
    expect([pieces.join(''), pieces.length > 5, await streamed.finishReason]).toEqual([answer, true, 'stop']);
    const counts = { inputTokens: 42, outputTokens: 10, totalTokens: 52, inputTokenDetails: { cacheReadTokens: 30, noCacheTokens: 12 } };
    expect(plain.usage).toMatchObject(counts);
    expect(await streamed.usage).toMatchObject(counts);
    expect(await lastCall(lent())).toMatchObject({ stream: true, estimated: false, tokens: { input: 12, cached_input: 30, output: 10 } });
  });

  it.each([
    ['length', 'echo', { maxOutputTokens: 16, prompt: 'x'.repeat(200) }],
    ['content-filter', 'filtered', {}],
    ['tool-calls', 'tool', { tools }],
  ])('reports the stop reason: %s', async (reason, model, more) => {
    const { finishReason } = await generateText({ model: modelOf(model), ...asked, ...more });
    expect(finishReason).toBe(reason);
    const streamed = streamText({ model: modelOf(model), ...asked, ...more });
    await streamed.consumeStream();
    expect(await streamed.finishReason).toBe(reason);
  });

  it.each(['tool', 'tools-parallel', 'tools-interleaved'])('runs a tool loop, plain and streamed: %s', async (model) => {
    const inputs = ['weather Oslo 1', 'time Oslo'].slice(0, model === 'tool' ? 1 : 2);
    // In the responses dialect only the last result is in the last item.
    const toolReport = model === 'tool' ? /^The tool said: \{"degrees":-3\}$/ : /^The tool said: .*noon$/s;
    const body = { model: modelOf(model), ...common, prompt: 'Oslo', tools: runningTools, stopWhen: isStepCount(3) };
    ran.length = 0;
    const plain = await generateText(body);
    expect([plain.steps.length, plain.text]).toEqual([2, expect.stringMatching(toolReport)]);
    expect(ran).toEqual(inputs);
    ran.length = 0;
    const streamed = streamText(body);
    expect(await streamed.text).toMatch(toolReport);
    expect([(await streamed.steps).length, ran]).toEqual([2, inputs]);
  });

  it('returns an object that matches a schema', async () => {
    const output = Output.object({ schema: jsonSchema<{ city: string; days: number }>(citySchema) });
    const plain = await generateText({ model: modelOf('echo'), ...common, prompt: 'Oslo', output });
    expect(plain.output).toEqual({ city: 'Oslo', days: 1 });
    const streamed = streamText({ model: modelOf('echo'), ...common, prompt: 'Oslo', output });
    expect(await streamed.output).toEqual({ city: 'Oslo', days: 1 });
  });

  it('accepts inline images and image URLs', async () => {
    const messages: ModelMessage[] = [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Inspect' },
          { type: 'file', data: Buffer.from(pixel, 'base64'), mediaType: 'image/png' },
          { type: 'file', data: new URL(webImage), mediaType: 'image/webp' },
        ],
      },
    ];
    const { text } = await generateText({ model: modelOf('echo'), ...common, messages });
    expect(text).toBe('You said: Inspect (and sent 2 attachments)');
    const { text: sent } = lastRequest(lent());
    expect([sent.includes(pixel), sent.includes(webImage)]).toEqual([true, true]);
  });

  it("makes the AI SDK throw its own error class with the vendor's message", async () => {
    const failure = await generateText({ model: modelOf('refuse-422'), ...asked }).catch((error: unknown) => error);
    expect(APICallError.isInstance(failure)).toBe(true);
    expect(failure).toMatchObject({ statusCode: 422, message: "The request is not one that 'refuse-422' can answer." });
    const streamed: unknown[] = [];
    const stream = streamText({ model: modelOf('break-after-3+long-20'), ...asked, onError: ({ error }) => void streamed.push(error) });
    const text = await stream.text.then(
      (whole) => whole,
      () => null,
    );
    // The chat dialect has no error event, so an interrupted stream just ends (see docs/api/reference.md#streaming).
    if (title.includes('its messages')) expect(streamed).toHaveLength(1);
    expect([null, 'the quick brown ']).toContain(text);
  });
});

it('embeds one or several texts', async () => {
  const model = vercelOpenaiOf(lent()).embedding('one/echo');
  const { embedding, usage } = await embed({ model, value: 'the cat sleeps' });
  const { embeddings } = await embedMany({ model, values: ['the cat sleeps', 'stock prices'] });
  expect([embedding.length, embeddings[0], usage.tokens]).toEqual([256, embedding, 4]);
});
