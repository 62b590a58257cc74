/**
 * Tests what the gateway reads on passthrough routes: the request, the usage, and the part of the response that is
 * recorded.
 */
import { describe, expect, it } from '@jest/globals';
import { GatewayError } from '../../../src/core/errors.ts';
import { scanObject, splice } from '../../../src/core/json/spans.ts';
import { createSseParser } from '../../../src/core/sse.ts';
import type { StreamReader } from '../../../src/dialects/contract/route-codec.ts';
import { embeddings, moderations, rerank } from '../../../src/dialects/passthrough/codecs.ts';
import { responses } from '../../../src/dialects/passthrough/responses.ts';

const json = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));
const none = { input: 0, cachedInput: 0, cacheWrite: 0, cacheWrite1h: 0, output: 0 };

function codeOf(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    if (error instanceof GatewayError) return error.code;
    throw error;
  }
  return 'accepted';
}

describe.each([embeddings, moderations, rerank, responses])('a request of $route', (rules) => {
  const read = (body: Buffer) => rules.parseRequest(body, scanObject(body));

  it.each([[{}], [{ model: '' }], [{ model: 7 }], [{ model: null }]])(
    'fails with missing_model if the model is missing or invalid: %j',
    (body) => {
      expect(codeOf(() => read(json(body)))).toBe('missing_model');
    },
  );

  it('accepts `stream: null`', () => {
    expect(read(json({ model: 'm', stream: null }))).toMatchObject({ stream: false });
  });

  it('rejects a request with two `model` members', () => {
    expect(codeOf(() => read(Buffer.from('{"model":"a","model":"b"}')))).toBe('bad_json');
  });

  it('changes nothing in a request except the model', () => {
    const body = Buffer.from('{ "input" : [1.0, 1e5] , "model":"a/b", "x":12345678901234567890}');
    const sent = splice(body, rules.patchForVendor(body, scanObject(body), 'b', true));
    expect(sent.toString()).toBe('{ "input" : [1.0, 1e5] , "model":"b", "x":12345678901234567890}');
  });
});

describe('usage', () => {
  it.each([
    [
      'embeddings',
      embeddings,
      { data: [], usage: { prompt_tokens: 5, total_tokens: 5 } },
      { tokens: { ...none, input: 5 }, isFinal: true },
    ],
    ['embeddings without usage', embeddings, { data: [] }, { tokens: null, isFinal: false }],
    ['a bare list from a rerank vendor', rerank, [{ index: 0, score: 0.5 }], { tokens: null, isFinal: false }],
    ['a response with a null error', rerank, { results: [], error: null }, { tokens: null, isFinal: false }],
    ['moderations, which are free', moderations, { results: [] }, { tokens: none, isFinal: true }],
    ['rerank by tokens', rerank, { results: [], usage: { total_tokens: 9 } }, { tokens: { ...none, input: 9 }, isFinal: true }],
    [
      'rerank by searches',
      rerank,
      { results: [], meta: { billed_units: { search_units: 2 } } },
      { tokens: null, isFinal: false, searches: 2 },
    ],
    [
      'rerank by tokens and no searches',
      rerank,
      { results: [], meta: { billed_units: { input_tokens: 9, search_units: 0 }, tokens: { input_tokens: 9 } } },
      { tokens: { ...none, input: 9 }, isFinal: true },
    ],
    [
      'rerank by tokens and searches',
      rerank,
      { results: [], usage: { total_tokens: 9 }, meta: { billed_units: { search_units: 1 } } },
      { tokens: { ...none, input: 9 }, isFinal: true, searches: 1 },
    ],
    [
      'rerank by the tokens that were read',
      rerank,
      { results: [], meta: { tokens: { input_tokens: 9 } } },
      { tokens: { ...none, input: 9 }, isFinal: true },
    ],
    [
      'responses with cached tokens',
      responses,
      { output: [], usage: { input_tokens: 10, input_tokens_details: { cached_tokens: 4 }, output_tokens: 0 } },
      { tokens: { ...none, input: 6, cachedInput: 4 }, isFinal: true },
    ],
  ])('reads the usage of %s', (_title, rules, answer, expected) => {
    expect(rules.parseResponse(json(answer))).toMatchObject(expected);
  });

  it('rejects an invalid vendor response as unreadable', () => {
    for (const rules of [embeddings, moderations, rerank, responses]) {
      expect(rules.parseResponse(Buffer.from('<html>'))).toBeNull();
      for (const fault of [{ error: { message: 'x' } }, { error: 'x' }, 'x', 7, null]) expect(rules.parseResponse(json(fault))).toBeNull();
    }
  });

  it("accepts unknown members in a vendor's response", () => {
    for (const rules of [embeddings, moderations, rerank, responses])
      expect(rules.parseResponse(json({ id: 'x', error: null, new_member: 1 }))).not.toBeNull();
  });
});

describe('responses', () => {
  const output = [
    { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'Hm' }] },
    {
      type: 'message',
      content: [
        { type: 'output_text', text: 'Hel' },
        { type: 'output_text', text: 'lo' },
      ],
    },
    { type: 'function_call', name: 'f', arguments: '{"a":1}' },
    { type: 'web_search_call', action: {} },
  ];
  const turn = { text: 'Hello', toolCalls: [{ name: 'f', arguments: '{"a":1}' }] };

  it('records the text and function calls of a response in the conversation', () => {
    expect(responses.parseResponse(json({ output }))?.turn).toEqual(turn);
  });

  it.each(['response.completed', 'response.incomplete'])('reads the usage of a stream from the final %s event', (type) => {
    const reader = responses.createStreamReader();
    const meanings = read(reader, [
      { type: 'response.created', response: {} },
      { type: 'response.output_text.delta', delta: 'He' },
      { type, response: { output, usage: { input_tokens: 3, output_tokens: 2 } } },
    ]);
    expect(meanings).toEqual(['opening', 'delta', 'end']);
    expect(reader.summary()).toEqual({
      tokens: { ...none, input: 3, output: 2 },
      isFinal: true,
      turn,
      generatedCharacters: 15,
      toolUses: { web_search: 1 },
    });
  });

  it('treats response.failed and error events as errors', () => {
    const failing = responses.createStreamReader();
    expect(
      read(failing, [
        { type: 'response.output_text.delta', delta: 'He' },
        { type: 'response.failed', response: { error: { message: 'overloaded' }, usage: { input_tokens: 3, output_tokens: 1 } } },
      ]),
    ).toEqual(['delta', 'error']);
    expect(failing.problem()).toMatchObject({ message: 'overloaded' });
    expect(failing.summary()).toEqual({
      tokens: { ...none, input: 3, output: 1 },
      isFinal: true,
      turn: { text: 'He', toolCalls: [] },
      generatedCharacters: 2,
    });
    const broken = responses.createStreamReader();
    expect(read(broken, [{ type: 'error', message: 'no' }])).toEqual(['error']);
    expect(broken.problem()).toMatchObject({ message: 'no' });
    expect(broken.finished()).toBe(false);
  });

  function read(reader: StreamReader, events: readonly (Readonly<Record<string, unknown>> & { readonly type: string })[]): string[] {
    const text = events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join('');
    return createSseParser()
      .push(Buffer.from(text))
      .events.map((event) => reader.read(event));
  }
});

describe('a long list of embeddings', () => {
  const numbers = Array.from({ length: 20_000 }, (_, index) => index / 7).join(',');
  const read = (vector: string) =>
    embeddings.parseResponse(
      Buffer.from(`{"data":[{"embedding" : ${vector},"index":0},{"index":1,"embedding":[1]}],"usage":{"prompt_tokens":5}}`),
    );

  it('reads the usage of an embeddings response without parsing the vectors', () => {
    expect(read(`[${numbers},1.2.3]`)).toMatchObject({ tokens: { ...none, input: 5 }, isFinal: true });
  });

  it.each([`["${numbers}"]`, `[[${numbers}],[${numbers}]]`, `[{"values":[${numbers}]}]`, `"${numbers.replaceAll('.', '')}"`])(
    'accepts any kind of embedding without parsing it',
    (vector) => {
      expect(read(vector)).toMatchObject({ tokens: { ...none, input: 5 }, isFinal: true });
    },
  );

  it.each([`[${numbers},NaN]`, `[${numbers},Infinity]`, `[${numbers}`, `[${numbers}]]`])(
    "rejects embeddings that aren't valid JSON",
    (vector) => {
      expect(read(vector)).toBeNull();
    },
  );
});
