/**
 * Tests the response cache in isolation, i.e. which calls share a key, what is stored and for how long, and what is
 * evicted.
 */
import { createHash } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import type { Call } from '../../../src/core/call.ts';
import { noCorrelation } from '../../../src/core/call.ts';
import type { Candidate } from '../../../src/core/candidate.ts';
import { scanObject } from '../../../src/core/json/spans.ts';
import { computeCacheKey } from '../../../src/pipeline/cache/cache-key.ts';
import { createResponseStore } from '../../../src/pipeline/cache/lru-store.ts';
import { replayCached } from '../../../src/pipeline/cache/replay-cached.ts';
import { type CacheHit, createResponseCache } from '../../../src/pipeline/cache/response-cache.ts';
import type { StreamChunk } from '../../../src/vendors/stream.ts';

const candidate: Candidate = { id: 'one/m', provider: 'one', model: 'm', dialect: 'chat', price: null, maxOutputTokens: null };
const candidates = [candidate];
const settings = { enabled: true, ttlMs: 600_000, sampled: false };
const contentType = 'application/json';

function callOf(text: string, more: Partial<Call> & { projectId?: string } = {}): Call {
  const body = Buffer.from(text);
  const { projectId = 'project-1', ...changed } = more;
  return {
    id: 'call-1',
    startedAt: 1_000,
    route: 'chat',
    caller: { keyId: 'key-1', keyPrefix: 'k', quotaKeyId: 'key-1', projectId, models: null, expiresAt: null },
    projectSlug: 'acme',
    source: 'acme',
    hasExplicitSource: false,
    requestedModel: 'one/m',
    stream: false,
    body,
    spans: scanObject(body),
    maxOutputTokens: null,
    memory: { mode: 'write', explicitWrite: false, subject: null },
    cache: { reads: true, writes: true },
    correlation: noCorrelation,
    deadlineAt: null,
    forwardedHeaders: {},
    ...changed,
  };
}

const call = callOf('{"messages":[]}');

function answer(text: string): Buffer {
  return Buffer.from(
    JSON.stringify({
      id: 'c',
      object: 'chat.completion',
      created: 1,
      model: 'm',
      choices: [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: 'stop' }],
    }),
  );
}

function createCache(options: { maxBytes?: number; maxResponseBytes?: number } = {}) {
  let now = 1_000;
  const cache = createResponseCache({ clock: { now: () => now }, ...options });
  const lookup = (call: Call, more: { ttlMs?: number; enabled?: boolean; candidates?: readonly Candidate[]; revision?: number } = {}) =>
    cache.lookup({
      call,
      recalledSubjects: [],
      settings: { ...settings, ...more },
      candidates: more.candidates ?? candidates,
      revision: more.revision ?? 0,
    });
  const store = (call: Call, bytes: Buffer): void => {
    const { writer } = lookup(call);
    writer?.append(bytes);
    writer?.commit({ contentType, model: 'one/m' });
  };
  return {
    cache,
    lookup,
    store,
    isCached: (call: Call) => lookup(call).hit !== null,
    advance: (ms: number) => {
      now += ms;
    },
  };
}

describe('the key of a cached response', () => {
  const keyOf = (call: Call, more: { projectId?: string; candidates?: readonly Candidate[]; revision?: number } = {}): string =>
    computeCacheKey(more.projectId ?? 'project-1', { call, candidates: more.candidates ?? candidates, revision: more.revision ?? 0 });
  const key = keyOf(call);

  test.each([
    ['with another name for the model', '{"model":"standard","messages":[]}'],
    ['with streaming', '{"messages":[],"stream":true,"stream_options":{"include_usage":true}}'],
    ['with stream set to false', '{"stream":false,"messages":[]}'],
  ])('uses the same cache key for a request %s', (_how, body) => {
    expect(keyOf(callOf(body))).toBe(key);
  });

  test('leaves the idempotency key out of the cache key', () => {
    expect(keyOf(callOf('{"messages":[]}', { forwardedHeaders: { 'idempotency-key': 'a' } }))).toBe(key);
  });

  test.each<[string, string]>([
    ['another project', keyOf(call, { projectId: 'project-2' })],
    ['another dialect', keyOf(callOf('{"messages":[]}', { route: 'messages' }))],
    ['different candidates', keyOf(call, { candidates: [candidate, { ...candidate, id: 'two/m' }] })],
    ['a different order of candidates', keyOf(call, { candidates: [{ ...candidate, id: 'two/m' }, candidate] })],
    ['another output limit of a candidate', keyOf(call, { candidates: [{ ...candidate, maxOutputTokens: 10 }] })],
    ['another configuration', keyOf(call, { revision: 1 })],
    ['a beta header', keyOf(callOf('{"messages":[]}', { forwardedHeaders: { 'anthropic-beta': 'tools' } }))],
    ['different whitespace', keyOf(callOf('{"messages": []}'))],
    ['a number in a different notation', keyOf(callOf('{"messages":[],"seed":1.0}'))],
    ['what a parser would leave out', keyOf(callOf('{"messages":[],"seed":1,"seed":1}'))],
    ['an inner member of that name', keyOf(callOf('{"messages":[],"metadata":{"model":"x"}}'))],
  ])('uses a different cache key for %s', (_what, other) => {
    expect(other).not.toBe(key);
  });

  test('uses a different cache key if the candidates are in a different order', () => {
    const two = { ...candidate, id: 'two/m' };
    expect(keyOf(call, { candidates: [candidate, two] })).not.toBe(keyOf(call, { candidates: [two, candidate] }));
  });
});

describe('a cached response', () => {
  test('returns a cached response unchanged, together with its summary and model', () => {
    const { lookup, store, cache } = createCache();
    expect(lookup(call).hit).toBeNull();
    store(call, answer('Hi'));
    const { hit, writer } = lookup(call);
    expect(hit).toMatchObject({ contentType, model: 'one/m', summary: { turn: { text: 'Hi', toolCalls: [] } } });
    expect(hit?.bytes).toEqual(answer('Hi'));
    expect(writer).toBeNull();
    expect(cache.state()).toMatchObject({ entries: 1, hits: 1, misses: 2, stored: 1, evicted: 0 });
  });

  test("caches a response only after it's complete", () => {
    const { lookup, isCached } = createCache();
    lookup(call).writer?.append(answer('Hi'));
    expect(isCached(call)).toBe(false);
  });

  test('copies a response before caching it, because the buffers of its chunks are reused', () => {
    const { lookup } = createCache();
    const large = Buffer.alloc(1_000_000, 0x20);
    const bytes = answer('Hi');
    bytes.copy(large, 500);
    const { writer } = lookup(call);
    writer?.append(large.subarray(500, 510));
    writer?.append(large.subarray(510, 500 + bytes.length));
    writer?.commit({ contentType, model: 'one/m' });
    large.fill(0);
    const { hit } = lookup(call);
    expect(hit?.bytes).toEqual(bytes);
    expect(hit?.bytes.buffer.byteLength).toBe(bytes.length);
  });

  test('returns a cached response until it expires', () => {
    const { store, isCached, advance, cache } = createCache();
    store(call, answer('Hi'));
    advance(599_999);
    expect(isCached(call)).toBe(true);
    advance(1);
    expect(isCached(call)).toBe(false);
    expect(cache.state()).toMatchObject({ entries: 0, bytes: 0 });
  });

  test("doesn't return cached responses after a configuration reload", () => {
    const { lookup } = createCache();
    const { writer } = lookup(call, { revision: 1 });
    writer?.append(answer('Hi'));
    writer?.commit({ contentType, model: 'one/m' });
    expect(lookup(call, { revision: 2 }).hit).toBeNull();
    expect(lookup(call, { revision: 1 }).hit).not.toBeNull();
  });

  test("lets cached responses expire sooner if the project's TTL has been shortened", () => {
    const { store, lookup, advance } = createCache();
    store(call, answer('Hi'));
    advance(1_000);
    expect(lookup(call, { ttlMs: 900_000 }).hit).not.toBeNull();
    expect(lookup(call, { ttlMs: 1_000 }).hit).toBeNull();
  });

  test('deletes an expired response when it stores another response', () => {
    const { store, advance, cache } = createCache();
    store(call, answer('Hi'));
    advance(600_000);
    store(callOf('{"messages":[1]}'), answer('Ho'));
    expect(cache.state()).toMatchObject({ entries: 1, evicted: 0 });
  });

  test("doesn't cache responses over the size limit", () => {
    const { store, isCached } = createCache({ maxResponseBytes: 2_000 });
    store(call, answer('x'.repeat(2_000)));
    expect(isCached(call)).toBe(false);
    store(call, answer('x'.repeat(1_500)));
    expect(isCached(call)).toBe(true);
  });

  test('evicts the least recently used response first', () => {
    const { store, isCached, cache } = createCache({ maxBytes: 80_000 });
    const [a, b, c] = ['[1]', '[2]', '[3]'].map((list) => callOf(`{"messages":${list}}`));
    if (!a || !b || !c) throw new Error('three calls');
    store(a, answer('x'.repeat(15_000)));
    store(b, answer('x'.repeat(15_000)));
    expect(isCached(a)).toBe(true);
    store(c, answer('x'.repeat(15_000)));
    expect([isCached(a), isCached(b), isCached(c)]).toEqual([true, false, true]);
    const { bytes, evicted } = cache.state();
    expect(evicted).toBe(1);
    expect(bytes).toBeLessThanOrEqual(80_000);
    expect(bytes).toBeGreaterThan(60_000);
  });

  test('counts the overhead of each entry towards the size limit of the cache', () => {
    const { store, cache } = createCache({ maxBytes: 100_000 });
    for (let n = 0; n < 1_000; n += 1) store(callOf(`{"messages":[${n}]}`), answer('Hi'));
    expect(cache.state().entries).toBeLessThan(100);
    expect(cache.state().bytes).toBeLessThanOrEqual(100_000);
  });
});

describe('requests that opt out of the response cache', () => {
  test("doesn't use the response cache if caching is disabled in the project", () => {
    const { store, lookup } = createCache();
    store(call, answer('Hi'));
    expect(lookup(call, { enabled: false })).toEqual({ hit: null, writer: null });
  });

  test('caches a new response for no-cache, and bypasses the cache for no-store', () => {
    const { store, lookup } = createCache();
    store(call, answer('old'));
    const fresh = callOf('{"messages":[]}', { cache: { reads: false, writes: true } });
    expect(lookup(fresh).hit).toBeNull();
    store(fresh, answer('new'));
    expect(lookup(call).hit?.summary.turn.text).toBe('new');
    expect(lookup(callOf('{"messages":[]}', { stream: true })).hit?.summary.turn.text).toBe('new');
    const events = 'data: {"id":"c","choices":[{"index":0,"delta":{"content":"newest"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n';
    store(callOf('{"messages":[]}', { stream: true, cache: { reads: false, writes: true } }), Buffer.from(events));
    expect(lookup(call).hit?.summary.turn.text).toBe('newest');
    expect(lookup(callOf('{"messages":[]}', { cache: { reads: false, writes: false } }))).toEqual({ hit: null, writer: null });
  });

  test('ignores and replaces cached responses older than max-age', () => {
    const { store, lookup, isCached, advance } = createCache();
    const within = (maxAgeMs: number): Call => callOf('{"messages":[]}', { cache: { reads: true, writes: true, maxAgeMs } });
    store(call, answer('old'));
    advance(5_000);
    expect([isCached(within(5_001)), isCached(within(5_000)), isCached(within(0)), isCached(call)]).toEqual([true, false, false, true]);
    store(within(5_000), answer('new'));
    expect(lookup(call).hit?.summary.turn.text).toBe('new');
    expect(isCached(within(1))).toBe(true);
  });

  test('ignores cache headers on routes without a cache', () => {
    const { lookup } = createCache();
    expect(lookup(callOf('{"messages":[]}', { route: 'responses' }))).toEqual({ hit: null, writer: null });
  });
});

describe('one cached response for plain and streamed requests', () => {
  const streamed = callOf('{"messages":[],"stream":true}', { stream: true });

  test('shares a cached response between plain and streamed requests if it converts without loss', () => {
    const { store, lookup } = createCache();
    store(call, answer('Hi'));
    const { hit } = lookup(streamed);
    expect(hit).toMatchObject({ contentType: 'text/event-stream', summary: { turn: { text: 'Hi' }, finished: true } });
    expect(hit?.bytes.toString()).toMatch(/"content":"Hi"[\s\S]*data: \[DONE\]\n\n$/);
  });

  test('caches plain and streamed responses separately if a conversion would lose something', () => {
    const { store, lookup, isCached } = createCache();
    const probable = Buffer.from(
      answer('Hi').toString().replace('"finish_reason"', '"logprobs":{"content":[{"token":"Hi"}]},"finish_reason"'),
    );
    store(call, probable);
    expect(isCached(streamed)).toBe(false);
    const events = Buffer.from(
      'data: {"id":"c","choices":[{"index":0,"delta":{"content":"Ho"},"logprobs":{"content":[]},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
    );
    store(streamed, events);
    expect(lookup(call).hit?.bytes).toEqual(probable);
    expect(lookup(streamed).hit?.bytes).toEqual(events);
  });
});

function replay(hit: CacheHit): StreamChunk[] {
  const reader = replayCached(hit, {}).chunks();
  const chunks: StreamChunk[] = [];
  for (let step = reader.read(); step?.kind === 'chunk'; step = reader.read()) chunks.push(step);
  return chunks;
}

test('replays a cached stream in small chunks', async () => {
  const { store, lookup } = createCache();
  const streamed = callOf('{"messages":[],"stream":true}', { stream: true });
  store(streamed, Buffer.concat([Buffer.from(': note\n\n'.repeat(5_000)), Buffer.from('data: [DONE]\n\n')]));
  const { hit } = lookup(streamed);
  if (!hit) throw new Error('nothing was stored');
  const chunks = replay(hit);
  expect(Buffer.concat(chunks.map(({ bytes }) => bytes))).toEqual(hit.bytes);
  expect(Math.max(...chunks.map(({ bytes }) => bytes.length))).toBeLessThanOrEqual(16 * 1024);
  expect(chunks.map(({ isLast: last }) => last)).toEqual([false, false, true]);
});

test.each([
  ['LF', '\n'],
  ['CRLF', '\r\n'],
  ['CR', '\r'],
])('splits a cached stream only between events, whatever their size (%s)', async (_what, lineEnd) => {
  const { lookup, store } = createCache();
  const stream = { ...call, stream: true };
  const sizes = [1, 100, 7_000, 9_000, 40_000, 2, 16_383, 16_384, 3, 20_000];
  const text = (size: number, end: object = {}): string =>
    `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: 'x'.repeat(size) }, ...end }] })}${lineEnd}${lineEnd}`;
  const bytes = Buffer.from([...sizes.map((size) => text(size)), text(0, { finish_reason: 'stop' }), 'data: [DONE]\n\n'].join(''));
  store(stream, bytes);
  const { hit } = lookup(stream);
  if (!hit) throw new Error('the stream was not cached');
  const chunks = replay(hit).map((chunk) => chunk.bytes);
  expect(Buffer.concat(chunks)).toEqual(bytes);
  for (const chunk of chunks) expect(chunk.toString()).toMatch(/^data: (?:.|\s)*(?:\n\n|\r\n\r\n|\r\r)$/);
  if (lineEnd !== '\r') expect(chunks.length).toBeGreaterThan(5);
});

describe('erasing a subject from the response cache', () => {
  const about = (subject: string, more: Partial<Call> & { projectId?: string } = {}) =>
    callOf(`{"messages":["${subject}"]}`, { memory: { mode: 'write', explicitWrite: false, subject }, ...more });
  const sha256 = (subject: string): string => createHash('sha256').update(subject).digest('hex');

  test('deletes the cached responses of a subject in this project', () => {
    const { store, isCached, cache } = createCache();
    store(about('ada'), answer('1'));
    store(about('ada', { forwardedHeaders: { 'openai-beta': 'x' } }), answer('2'));
    store(about('bob'), answer('3'));
    store(about('ada', { projectId: 'project-2' }), answer('4'));
    store(call, answer('5'));
    expect(cache.invalidateSubject('project-1', sha256('ada'))).toBe(2);
    expect(cache.invalidateSubject('project-1', sha256('ada'))).toBe(0);
    expect([isCached(about('ada')), isCached(about('bob')), isCached(about('ada', { projectId: 'project-2' })), isCached(call)]).toEqual([
      false,
      true,
      true,
      true,
    ]);
  });

  test('deletes responses that a call about the subject got from the cache', () => {
    const { store, isCached, cache } = createCache();
    const withUser = (subject: string) => ({ ...call, memory: { ...call.memory, subject } });
    store(call, answer('1'));
    for (const subject of ['ada', 'bob', 'ada']) expect(isCached(withUser(subject))).toBe(true);
    expect(cache.invalidateSubject('project-1', sha256('ada'))).toBe(1);
    expect([isCached(call), cache.invalidateSubject('project-1', sha256('bob'))]).toEqual([false, 0]);
    // Entries don't grow forever. Once too many subjects share one, it's replaced by a new response.
    store(call, answer('2'));
    for (let count = 0; count <= 32; count += 1) expect(isCached(withUser(`user-${count}`))).toBe(true);
    expect([isCached(call), cache.state().entries]).toEqual([false, 0]);
  });

  test('erases a subject without looking at responses about other subjects', () => {
    const store = createResponseStore(1_000_000);
    let reads = 0;
    const responseAbout = (subject: string) => ({
      bytes: answer('1'),
      contentType,
      model: 'one/m',
      projectId: 'project-1',
      get subjects() {
        reads += 1;
        return [subject];
      },
      storedAt: 1_000,
      expiresAt: 2_000,
    });
    store.set('ada', responseAbout('ada'));
    for (let other = 0; other < 100; other += 1) store.set(`other-${other}`, responseAbout(`other-${other}`));
    reads = 0;
    expect(store.deleteSubject('project-1', 'ada')).toBe(1);
    expect(reads).toBeLessThan(10);
  });

  test('forgets which entries were about a subject once they are replaced or evicted', () => {
    const { store, cache } = createCache({ maxBytes: 20_000 });
    store(about('ada'), answer('1'));
    store(about('ada', { cache: { reads: false, writes: true } }), answer('2'));
    store(about('bob'), answer('3'));
    for (let other = 0; other < 50; other += 1) store(about(`other-${other}`), answer('4'));
    store(about('ada'), answer('5'));
    expect(cache.invalidateSubject('project-1', sha256('ada'))).toBe(1);
    expect(cache.invalidateSubject('project-1', sha256('bob'))).toBe(0);
  });

  test("doesn't cache responses of calls that were in flight during an erasure", () => {
    const { lookup, store, isCached, cache, advance } = createCache();
    const { writer } = lookup(about('ada'));
    advance(10);
    cache.invalidateSubject('project-1', sha256('ada'));
    writer?.append(answer('Hi'));
    writer?.commit({ contentType, model: 'one/m' });
    expect(isCached(about('ada'))).toBe(false);
    store(about('ada', { startedAt: 2_000 }), answer('Hi'));
    expect(isCached(about('ada'))).toBe(true);
  });

  test("doesn't cache a response that was in flight during an erasure even if thousands of erasures follow", () => {
    const { lookup, store, isCached, cache, advance } = createCache();
    const { writer } = lookup(about('ada'));
    cache.invalidateSubject('project-1', sha256('ada'));
    advance(10);
    for (let other = 0; other < 10_000; other += 1) cache.invalidateSubject('project-2', sha256(`other-${other}`));
    writer?.append(answer('Hi'));
    writer?.commit({ contentType, model: 'one/m' });
    expect(isCached(about('ada'))).toBe(false);
    store(about('ada', { startedAt: 2_000 }), answer('Hi'));
    expect(isCached(about('ada'))).toBe(true);
  });
});
