/**
 * Tests what we reserve for input whose size we can't tell from the body, and what we charge if a call ends before its
 * vendor has reported the usage. Callers shouldn't get work for free by leaving early.
 */
import { describe, expect, test } from '@jest/globals';
import type { Call, TextRoute } from '../../../src/core/call.ts';
import type { Candidate } from '../../../src/core/candidate.ts';
import { scanObject } from '../../../src/core/json/spans.ts';
import { noTokens, type Tokens } from '../../../src/core/pricing.ts';
import { bodyKeys } from '../../../src/dialects/json/body-members.ts';
import { routeCodecs } from '../../../src/dialects/routes/route-codecs.ts';
import { computeCharge } from '../../../src/pipeline/call/charge.ts';
import { estimateInput, estimateRequest } from '../../../src/pipeline/call/estimate.ts';
import { backgroundCaller } from '../../../src/pipeline/call/internal-call.ts';
import { usageBounds } from '../../../src/pipeline/call/usage-bounds.ts';
import { outsideInputs } from './outside-inputs.ts';

/** A token costs one nano-dollar, so costs are easy to compare with tokens. */
const price = {
  inputNanos: 1_000_000n,
  outputNanos: 1_000_000n,
  cachedInputNanos: 1_000_000n,
  cacheWriteNanos: 1_000_000n,
  cacheWrite1hNanos: 1_000_000n,
};
const window = 200_000;
const candidate: Candidate = {
  ...{ id: 'one/m', provider: 'one', model: 'm', dialect: 'chat', price },
  ...{ maxOutputTokens: 1_000, maxInputTokens: window },
};
const hello = { model: 'one/m', max_tokens: 100, messages: [{ role: 'user', content: 'hi' }] };

function callOf(route: TextRoute, members: object | string): Call {
  const body = Buffer.from(typeof members === 'string' ? members : JSON.stringify(members));
  const spans = scanObject(body, bodyKeys);
  const { maxOutputTokens } = routeCodecs[route].parseRequest(body, spans);
  return { route, body, spans, maxOutputTokens, caller: backgroundCaller('acme') } as unknown as Call;
}

/** Charges a stream that ends before the vendor reports its final usage. */
function chargeStream(call: Call, tokens: Tokens | null = null) {
  const turn = { text: '', toolCalls: [] };
  return computeCharge(call, candidate, { tokens, isFinal: false, generatedCharacters: 0, turn }, { outcome: 'client_left', hiddenMs: 0 });
}

/** Charges a call that is cut off before its response, like `attempt.ts` does. */
function chargeWithoutResponse(call: Call, durationMs = 30) {
  return estimateRequest(call, candidate, durationMs);
}

describe.each(outsideInputs)('a call that refers to %s', (_what, route, members) => {
  const call = callOf(route, { model: 'one/m', max_tokens: 1, ...members });

  test('charges for the reserved input if the call ends early', () => {
    for (const { tokens, costNanos } of [chargeStream(call), chargeWithoutResponse(call)]) {
      expect(tokens.input).toBe(window);
      expect(costNanos).toBeGreaterThanOrEqual(window);
      expect(costNanos).toBeLessThanOrEqual(usageBounds(call, [candidate]).costNanos);
    }
  });
});

test('estimates the cost of the input from the body if the call ends early', () => {
  const call = callOf('chat', hello);
  const input = estimateInput(call);
  expect(input).toBeLessThan(50);
  expect(chargeStream(call).tokens).toEqual({ ...noTokens, input });
  expect(chargeWithoutResponse(call).tokens).toEqual({ ...noTokens, input, output: 3 });
});

test('charges for the reserved input even if the body hides the reference to a file', () => {
  const members = { ...hello, messages: [{ role: 'user', content: [{ type: 'file', file: { file_id: 'file-1' } }] }] };
  const call = callOf('chat', JSON.stringify(members).replace('file_id', 'fil\\u0065_id'));
  expect(chargeStream(call).tokens.input).toBe(window);
});

test("never charges more input tokens than fit into the model's context window", () => {
  const text = { type: 'text', text: 'long text '.repeat(30_000) };
  const call = callOf('chat', { ...hello, messages: [{ role: 'user', content: [text, { type: 'file', file: { file_id: 'file-1' } }] }] });
  expect(chargeStream(call).tokens.input).toBe(window);
});

test('charges only for the input reported so far unless MCP servers may add more', () => {
  const reported = { ...noTokens, input: 5_000, output: 1 };
  const source = { type: 'url', url: 'https://example.com/a.pdf' };
  const file = { ...hello, messages: [{ role: 'user', content: [{ type: 'document', source }] }] };
  expect(chargeStream(callOf('messages', file), reported).tokens).toEqual(reported);
  const servers = { mcp_servers: [{ type: 'url', url: 'https://example.com', name: 'x' }] };
  expect(chargeStream(callOf('messages', { ...hello, ...servers }), reported).tokens).toEqual({ ...reported, input: window });
});

test('charges for each media item if an embeddings call ends without reported usage', () => {
  const call = callOf('embeddings', { model: 'one/m', input: [{ image: 'https://example.com/a.png' }, { pdf: 'https://example.com/b' }] });
  for (const { tokens } of [chargeStream(call), chargeWithoutResponse(call)]) expect(tokens.input).toBeGreaterThanOrEqual(2 * window);
});

test('charges an estimate if a rerank vendor only reports searches, but the model is priced by tokens', () => {
  const call = callOf('rerank', { model: 'one/m', query: 'tea '.repeat(100), documents: ['a', 'b', 'c'] });
  const summary = { tokens: null, isFinal: false, searches: 1, generatedCharacters: 0, turn: { text: '', toolCalls: [] } };
  const { tokens, isEstimated } = computeCharge(call, candidate, summary, { outcome: 'ok', hiddenMs: 0 });
  expect([tokens.input, isEstimated]).toEqual([estimateInput(call), true]);
  expect(tokens.input).toBeGreaterThan(300);
  const free = { ...candidate, price: { ...price, inputNanos: 0n, perSearchNanos: 7n } };
  expect(computeCharge(call, free, summary, { outcome: 'ok', hiddenMs: 0 })).toMatchObject({ costNanos: 7, isEstimated: false });
});

test('charges for the output that all choices may have produced before the call was cut off', () => {
  expect(chargeWithoutResponse(callOf('chat', { ...hello, n: 8 }), 500).tokens.output).toBe(8 * 50);
  expect(chargeWithoutResponse(callOf('chat', { ...hello, n: 8 }), 60_000).tokens.output).toBe(8 * 100);
});

test.each<[string, TextRoute, object | string, number]>([
  ['an image', 'embeddings', { input: [{ image: 'https://example.com/a.png' }] }, 1],
  ['an image with an escaped address', 'embeddings', '{"model":"one/m","input":[{"image":"\\u0068ttps://example.com/a.png"}]}', 1],
  ['several kinds of media', 'embeddings', { input: [{ image: 'https://a/b' }, { pdf: 'https://a/b' }, { video: 'gs://a/b' }, 'hi'] }, 3],
  ['a nested image', 'embeddings', { inputs: [{ content: [{ type: 'image_url', image_url: 'https://a/b' }] }] }, 1],
  ['a small image with many pixels', 'embeddings', { input: [{ image: 'iVBORw0KGgoAAAA' }, { image: 'data:image/png;base64,iVBO' }] }, 2],
  ['an image as the query for two documents', 'rerank', { query: { image: 'https://a/b' }, documents: ['a', 'b'] }, 2],
  ['a text as an object and images to rank', 'rerank', { query: { text: 'hi' }, documents: [{ image: 'https://a/b' }, 'b'] }, 1],
  ['a document to rank', 'rerank', { query: 'hi', documents: [{ image: 'https://a/b' }] }, 1],
  ['the address of a document to rank', 'rerank', { query: 'hi', documents: [{ url: 'https://a/b', text: 'hi' }] }, 0],
])("reserves the model's context window for each media item to embed or rank: %s", (_what, route, members, items) => {
  const call = callOf(route, typeof members === 'string' ? members : { model: 'one/m', ...members });
  const { costNanos } = usageBounds(call, [candidate]);
  expect(costNanos).toBeGreaterThanOrEqual(items * window);
  expect(costNanos).toBeLessThan(items * window + 5_500);
});

test.each<[string, TextRoute, object | string]>([
  ['a backtick that .NET has escaped', 'chat', '{"model":"one/m","messages":[{"role":"user","content":"run \\u0060ls\\u0060"}]}'],
  [
    'a tool with a parameter for the address of a video',
    'chat',
    {
      model: 'one/m',
      messages: [{ role: 'user', content: 'hi' }],
      tools: [
        {
          type: 'function',
          function: { name: 'f', parameters: { type: 'object', properties: { video_url: { type: 'string' } }, required: ['video_url'] } },
        },
      ],
    },
  ],
])('charges only for the body if a call with %s ends early', (_what, route, body) => {
  expect(chargeStream(callOf(route, body)).tokens.input).toBeLessThan(200);
});
