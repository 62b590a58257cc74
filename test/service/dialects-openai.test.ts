/** Tests the `openai` SDK with vendors of both dialects. Only the base URL and key are changed. */
import { describe, expect, it } from '@jest/globals';
import type OpenAI from 'openai';
import { shareGateway } from '../support/gateway.ts';
import {
  chatTools,
  dialects,
  lastCall,
  lastRequest,
  openaiOf,
  pixel,
  providersYaml,
  toolInputs,
  vendors,
  webImage,
} from './dialects-gateway.ts';

const lent = shareGateway({
  database: 'any',
  yaml: (vendorUrl, deadUrl) => `${providersYaml(vendorUrl, deadUrl)}tiers: { embed: [three/echo, one/echo] }\n`,
});

type Messages = OpenAI.ChatCompletionMessageParam[];
const question: Messages = [
  { role: 'developer', content: 'Answer briefly.' },
  { role: 'user', content: 'What is the capital of Norway?' },
];
const answer = 'You said: What is the capital of Norway?';

describe.each(dialects)('chat on a %s vendor', (vendor) => {
  const modelOf = (model: string): string => `${vendors[vendor]}/${model}`;
  const completions = () => openaiOf(lent()).chat.completions;

  it('follows the system prompt on chat, plain and streamed', async () => {
    const plain = await completions().create({ model: modelOf('echo'), messages: question });
    expect(plain).toMatchObject({
      object: 'chat.completion',
      model: 'echo',
      choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: answer, refusal: null } }],
      usage: { prompt_tokens: 12, completion_tokens: 10, total_tokens: 22 },
    });
    expect(plain.created).toBeGreaterThan(1_700_000_000);

    const pieces: OpenAI.ChatCompletionChunk[] = [];
    const stream = await completions().create({
      model: modelOf('echo'),
      messages: question,
      stream: true,
      stream_options: { include_usage: true },
    });
    for await (const piece of stream) pieces.push(piece);
    expect(pieces[0]?.choices[0]?.delta.role).toBe('assistant');
    expect(pieces.map(({ choices }) => choices[0]?.delta.content ?? '').join('')).toBe(answer);
    expect(pieces.filter(({ choices }) => choices[0]?.delta.content).length).toBeGreaterThan(5);
    expect(pieces.map(({ choices }) => choices[0]?.finish_reason ?? null).filter((reason) => reason !== null)).toEqual(['stop']);
    expect(pieces.filter(({ usage }) => usage)).toMatchObject([{ choices: [], usage: { prompt_tokens: 12, completion_tokens: 10 } }]);
    expect(new Set(pieces.map(({ id }) => id)).size).toBe(1);
  });

  it.each([
    ['stop', 'echo', {}, answer],
    ['length', 'echo', { max_tokens: 2 }, 'You said'],
    ['length', 'echo', { max_completion_tokens: 2, max_tokens: 9 }, 'You said'],
    ['content_filter', 'filtered', {}, ''],
    ['tool_calls', 'tool', { tools: chatTools }, null],
  ])('reports the stop reason: %s (%s, %j)', async (reason, model, bounds, content) => {
    const body = { model: modelOf(model), messages: question, ...bounds };
    const plain = await completions().create(body);
    expect(plain.choices[0]).toMatchObject({ finish_reason: reason, message: { content } });
    const streamed = await completions().stream(body).finalChatCompletion();
    expect(streamed.choices[0]?.finish_reason).toBe(reason);
  });

  it.each(['tool', 'tools-parallel', 'tools-interleaved'])('runs a tool loop, plain and streamed: %s', async (model) => {
    const body = { model: modelOf(model), messages: [{ role: 'user' as const, content: 'Oslo' }], tools: chatTools };
    const expected = toolInputs('Oslo').slice(0, model === 'tool' ? 1 : 2);
    for (const completion of [await completions().create(body), await completions().stream(body).finalChatCompletion()]) {
      const message = completion.choices[0]?.message;
      const calls = (message?.tool_calls ?? []).filter((call) => call.type === 'function');
      expect(calls.map(({ function: fn }) => ({ name: fn.name, input: JSON.parse(fn.arguments) }))).toEqual(expected);
      expect(new Set(calls.map(({ id }) => id)).size).toBe(expected.length);
      if (!message) throw new Error('no message');
      const results: Messages = calls.map(({ id, function: fn }) => ({ role: 'tool', tool_call_id: id, content: `${fn.name} is done` }));
      const last = await completions().create({
        ...body,
        messages: [...body.messages, { role: 'assistant', content: message.content, tool_calls: calls }, ...results],
      });
      expect(last.choices[0]).toMatchObject({ finish_reason: 'stop', message: { content: expect.stringContaining('The tool said: ') } });
      expect(last.choices[0]?.message.content).toContain(`${expected.at(-1)?.name} is done`);
    }
  });

  it('calls the tool that the caller names, or none if tools are forbidden', async () => {
    const body = { model: modelOf('echo'), messages: question, tools: chatTools };
    const named = await completions().create({ ...body, tool_choice: { type: 'function', function: { name: 'get_time' } } });
    expect(named.choices[0]?.message.tool_calls).toMatchObject([{ function: { name: 'get_time' } }]);
    const required = await completions().create({ ...body, tool_choice: 'required', parallel_tool_calls: false });
    expect(required.choices[0]?.message.tool_calls).toMatchObject([{ function: { name: 'get_weather' } }]);
    const none = await completions().create({ ...body, messages: [{ role: 'user', content: 'use a tool' }], tool_choice: 'none' });
    expect(none.choices[0]).toMatchObject({ finish_reason: 'stop', message: { content: 'You said: use a tool' } });
  });

  it('returns JSON that matches a schema, plain and streamed', async () => {
    const format = {
      type: 'json_schema' as const,
      json_schema: { name: 'place', strict: true, schema: chatTools[0]?.function.parameters ?? {} },
    };
    const body = { model: modelOf('echo'), messages: [{ role: 'user' as const, content: 'Oslo' }], response_format: format };
    for (const { choices } of [await completions().create(body), await completions().stream(body).finalChatCompletion()]) {
      expect(choices[0]).toMatchObject({ finish_reason: 'stop', message: { content: JSON.stringify({ city: 'Oslo', days: 1 }) } });
      expect(choices[0]?.message.tool_calls ?? []).toEqual([]);
    }
  });

  it('accepts inline images and image URLs', async () => {
    const data = `data:image/png;base64,${pixel}`;
    const completion = await completions().create({
      model: modelOf('echo'),
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Inspect' },
            { type: 'image_url', image_url: { url: data } },
            { type: 'image_url', image_url: { url: webImage, detail: 'low' } },
          ],
        },
      ],
    });
    expect(completion.choices[0]?.message.content).toBe('You said: Inspect (and sent 2 attachments)');
    const { json } = lastRequest(lent());
    const sources = [
      { type: 'image', source: { type: 'base64', media_type: 'image/png', data: pixel } },
      { type: 'image', source: { type: 'url', url: webImage } },
    ];
    const parts = [
      { type: 'image_url', image_url: { url: data } },
      { type: 'image_url', image_url: { url: webImage, detail: 'low' } },
    ];
    const seen = vendor === 'chat' ? parts : sources;
    expect(json['messages']).toEqual([{ role: 'user', content: [{ type: 'text', text: 'Inspect' }, ...seen] }]);
  });

  it("makes the openai SDK throw its own error class with the vendor's message", async () => {
    const { APIError } = (await import('openai')).default;
    const failure = await completions()
      .create({ model: modelOf('refuse-422'), messages: question })
      .catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(APIError);
    expect(failure).toMatchObject({
      status: 422,
      code: 'upstream_refused',
      message: "422 The request is not one that 'refuse-422' can answer.",
    });
  });
});

describe('routes that only chat vendors serve', () => {
  it("skips models whose vendor doesn't create embeddings", async () => {
    const input = ['the cat sleeps', 'a cat sleeps', 'stock prices'];
    const { data, usage } = await openaiOf(lent()).embeddings.create({ model: 'embed', input });
    const floats = await openaiOf(lent()).embeddings.create({ model: 'one/echo', input, encoding_format: 'float' });
    const vectors = data.map(({ embedding }) => embedding);
    const alike = (left = 0, right = 0): number =>
      (vectors[left] ?? []).reduce((sum, value, at) => sum + value * (vectors[right]?.[at] ?? 0), 0);
    expect(vectors.map((vector) => vector.length)).toEqual([256, 256, 256]);
    expect(alike(0, 1)).toBeGreaterThan(alike(0, 2));
    // By default the SDK requests base64 and decodes it.
    expect(vectors.map((vector) => vector.map((value) => value.toFixed(5)))).toEqual(
      floats.data.map(({ embedding }) => embedding.map((value) => value.toFixed(5))),
    );
    expect(await lastCall(lent())).toMatchObject({ model: 'one/echo', tokens: { input: usage.prompt_tokens, output: 0 } });
    await openaiOf(lent()).embeddings.create({ model: 'embed', input });
    expect((await lastCall(lent())).plan).toEqual([
      { model: 'one/echo', skipped: null },
      { model: 'three/echo', skipped: expect.stringMatching(/./) },
    ]);
  });

  it('creates moderations', async () => {
    const { results } = await openaiOf(lent()).moderations.create({ model: 'one/omni', input: ['I hate you', 'good morning'] });
    expect(results.map(({ flagged, categories }) => [flagged, categories.hate])).toEqual([
      [true, true],
      [false, false],
    ]);
  });

  it('creates responses with tools, plain and streamed', async () => {
    const { responses } = openaiOf(lent());
    const asked = { model: 'one/echo', instructions: 'Answer briefly.', input: 'What is the capital of Norway?' };
    const plain = await responses.create(asked);
    expect([plain.status, plain.output_text]).toEqual(['completed', answer]);
    const streamed = await responses.stream(asked).finalResponse();
    expect(streamed.output).toMatchObject([{ content: [{ text: answer }] }]);
    expect(streamed.usage).toEqual(plain.usage);

    const tools = chatTools.map(({ function: fn }) => ({ type: 'function' as const, strict: false, ...fn }));
    const withTools = { ...asked, model: 'one/tools-parallel', input: 'Oslo', tools };
    for (const { output } of [await responses.create(withTools), await responses.stream(withTools).finalResponse()]) {
      const calls = output.flatMap((item) =>
        item.type === 'function_call' ? [{ name: item.name, input: JSON.parse(item.arguments) }] : [],
      );
      expect(calls).toEqual(toolInputs('Oslo'));
    }
  });
});
