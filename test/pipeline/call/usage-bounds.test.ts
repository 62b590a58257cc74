/** Upper bounds are at least what the gateway charges when the vendor reports no usage. */
import { describe, expect, test } from '@jest/globals';
import type { Call, TextRoute } from '../../../src/core/call.ts';
import { newId } from '../../../src/core/ids.ts';
import { scanObject } from '../../../src/core/json/spans.ts';
import type { Price } from '../../../src/core/pricing.ts';
import { bodyKeys } from '../../../src/dialects/json/body-members.ts';
import { estimateRequest } from '../../../src/pipeline/call/estimate.ts';
import { backgroundCaller, buildInternalCall } from '../../../src/pipeline/call/internal-call.ts';
import { usageBounds } from '../../../src/pipeline/call/usage-bounds.ts';

const searched: Price = {
  inputNanos: 0n,
  outputNanos: 0n,
  cachedInputNanos: 0n,
  cacheWriteNanos: 0n,
  cacheWrite1hNanos: 0n,
  perSearchNanos: 2_000_000n,
};

const reranked = (documents: readonly string[]) =>
  buildInternalCall({
    id: newId(0),
    route: 'rerank',
    caller: backgroundCaller('acme'),
    slug: 'acme',
    model: 'rank',
    members: { query: 'hi', documents },
    timeoutMs: 1,
    now: 0,
  });

test.each([
  ['many small documents', Array.from({ length: 1_001 }, () => 'x'), 11],
  ['a few long ones', Array.from({ length: 3 }, () => 'x'.repeat(50_000)), 4],
  ['none', [], 1],
])('a rerank call of %s reserves the searches that it may be charged', (_what, documents, searches) => {
  const call = reranked(documents);
  const candidate = {
    id: 'two/rank',
    provider: 'two',
    model: 'rank',
    dialect: 'chat',
    price: searched,
    maxOutputTokens: null,
    traits: {},
  } as const;
  const { costNanos } = usageBounds(call, [candidate]);
  expect(costNanos).toBe(searches * 2_000_000);
  expect(estimateRequest(call, searched).costNanos).toBeLessThanOrEqual(costNanos);
});

describe('media in the body', () => {
  const base64 = (magic: Buffer, bytes: number): string => Buffer.concat([magic, Buffer.alloc(bytes)]).toString('base64');
  const png = base64(Buffer.from('89504e470d0a1a0a', 'hex'), 1_000_000);
  const jpeg = base64(Buffer.from('ffd8ffe0', 'hex'), 1_000_000);
  const pdf = base64(Buffer.from('%PDF-1.7'), 1_000_000);
  const audio = base64(Buffer.from('RIFF'), 1_000_000);
  const source = (data: string, mediaType = 'image/png') => ({ type: 'base64', media_type: mediaType, data });
  const chatPart = { type: 'image_url', image_url: { url: `data:image/png;base64,${png}` } };
  const ofMessages = { type: 'image', source: source(jpeg, 'image/jpeg') };
  const toolResult = { type: 'tool_result', tool_use_id: 't', content: [{ type: 'image', source: source(png) }] };
  const screenshot = { type: 'computer_screenshot', image_url: `data:image/png;base64,${png}` };
  const said = (...content: object[]) => ({ messages: [{ role: 'user', content: [{ type: 'text', text: 'hi' }, ...content] }] });

  const measure = (route: TextRoute, members: object | string, window?: number) => {
    const text = typeof members === 'string' ? members : JSON.stringify(members);
    const body = Buffer.from(text);
    const call = { route, body, spans: scanObject(body, bodyKeys), maxOutputTokens: 10 } as unknown as Call;
    const limit = window === undefined ? {} : { maxInputTokens: window };
    const candidate = { id: 'one/m', provider: 'one', model: 'm', dialect: 'chat', price: null, maxOutputTokens: null, ...limit } as const;
    return { bound: usageBounds(call, [candidate]).tokens, estimate: estimateRequest(call, null).tokens.input };
  };

  test.each<[string, TextRoute, object | string, number]>([
    ['an image of chat', 'chat', said(chatPart), 1],
    ['an image whose slashes are escaped', 'chat', JSON.stringify(said(chatPart)).replaceAll('/', '\\/'), 1],
    ['two images of messages', 'messages', said(ofMessages, ofMessages), 2],
    ['an image in a tool result', 'messages', said(toolResult), 1],
    [
      'an image of responses',
      'responses',
      { input: [{ role: 'user', content: [{ type: 'input_image', image_url: `data:image/png;base64,${png}` }] }] },
      1,
    ],
    ['a screenshot', 'responses', { input: [{ type: 'computer_call_output', output: screenshot }] }, 1],
    ['an image that a tool made', 'responses', { input: [{ type: 'image_generation_call', id: 'i', result: png }] }, 1],
    ['an image by URL', 'chat', said({ type: 'image_url', image_url: { url: 'https://example.com/a.png' } }), 1],
  ])('%s counts as an image, not as text', (_what, route, members, images) => {
    const { bound, estimate } = measure(route, members);
    expect(bound).toBeGreaterThan(images * 2_000);
    expect(bound).toBeLessThan(images * 2_000 + 500);
    expect(estimate).toBeGreaterThanOrEqual(images * 1_600);
    expect(estimate).toBeLessThanOrEqual(bound);
  });

  test.each<[string, TextRoute, object]>([
    ['the arguments of a tool', 'messages', said({ type: 'tool_use', id: 't', name: 'x', input: { source: source(png) } })],
    [
      'the description of a tool',
      'chat',
      { ...said(), tools: [{ type: 'function', function: { name: 'x', description: { image_url: chatPart.image_url } } }] },
    ],
    ['a text', 'chat', said({ type: 'text', text: JSON.stringify(chatPart) })],
    ['a document of plain text', 'messages', said({ type: 'document', source: { data: png, media_type: 'text/plain', type: 'text' } })],
    [
      'text where an image belongs',
      'chat',
      said({ type: 'image_url', image_url: { url: `data:image/png;base64,${'text'.repeat(250_000)}` } }),
    ],
  ])('data in %s counts as text', (_what, route, members) => {
    expect(measure(route, members).bound).toBeGreaterThan(1_000_000);
  });

  test('audio counts by its length', () => {
    const { bound, estimate } = measure('chat', said({ type: 'input_audio', input_audio: { data: audio, format: 'wav' } }));
    expect(bound).toBeGreaterThan(audio.length / 30);
    expect(bound).toBeLessThan(audio.length / 20);
    expect(estimate).toBeLessThan(bound);
  });

  test.each<[string, TextRoute, object]>([
    ['chat', 'chat', { type: 'file', file: { filename: 'a.pdf', file_data: `data:application/pdf;base64,${pdf}` } }],
    ['messages', 'messages', { type: 'document', source: source(pdf, 'application/pdf') }],
    ['text that begins like an image', 'chat', { type: 'file', file: { file_data: `data:text/plain;base64,${png}` } }],
    ['no declared type', 'chat', { type: 'file', file: { filename: 'a.txt', file_data: png } }],
  ])('a document of %s counts as its bytes, and as no more than the window of the model', (_what, route, part) => {
    expect(measure(route, said(part)).bound).toBeGreaterThan(pdf.length);
    const { bound, estimate } = measure(route, said(part), 200_000);
    expect(bound).toBeGreaterThan(200_000);
    expect(bound).toBeLessThan(200_500);
    expect(estimate).toBeLessThan(bound);
  });
});
