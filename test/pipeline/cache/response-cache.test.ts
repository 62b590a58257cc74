/** The response cache by itself: what is the same question, what is kept and for how long, and what goes. */
import { createHash } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import type { Call, Candidate } from '../../../src/core/call.ts';
import { noCorrelation } from '../../../src/core/call.ts';
import { scanObject } from '../../../src/core/json/spans.ts';
import { computeCacheKey } from '../../../src/pipeline/cache/cache-key.ts';
import { replayCached } from '../../../src/pipeline/cache/replay-cached.ts';
import { createResponseCache } from '../../../src/pipeline/cache/response-cache.ts';

const candidate: Candidate = { id: 'one/m', provider: 'one', model: 'm', dialect: 'chat', price: null, maxOutputTokens: null };
const candidates = [candidate];
const settings = { enabled: true, ttlMs: 600_000 };
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
    sourceGiven: false,
    modelAsked: 'one/m',
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

const question = callOf('{"messages":[]}');

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

function lendCache(options: { maxBytes?: number; maxAnswerBytes?: number; revision?: () => number } = {}) {
  let now = 1_000;
  const cache = createResponseCache({ clock: { now: () => now }, revision: () => 0, ...options });
  const lookUp = (call: Call, more: { ttlMs?: number; enabled?: boolean; candidates?: readonly Candidate[] } = {}) =>
    cache.lookup({ call, recalledSubjects: [], settings: { ...settings, ...more }, candidates: more.candidates ?? candidates });
  const keep = (call: Call, bytes: Buffer): void => {
    const { writer: recording } = lookUp(call);
    recording?.append(bytes);
    recording?.commit({ contentType, model: 'one/m' });
  };
  return {
    cache,
    lookUp,
    keep,
    isKept: (call: Call) => lookUp(call).hit !== null,
    advance: (ms: number) => {
      now += ms;
    },
  };
}

describe('the same question', () => {
  const keyOf = (call: Call, more: { projectId?: string; candidates?: readonly Candidate[]; revision?: number } = {}): string =>
    computeCacheKey(more.projectId ?? 'project-1', { call, candidates: more.candidates ?? candidates, revision: more.revision ?? 0 });
  const key = keyOf(question);

  test.each([
    ['with another name of the model', '{"model":"standard","messages":[]}'],
    ['streamed', '{"messages":[],"stream":true,"stream_options":{"include_usage":true}}'],
    ['expressly plain', '{"stream":false,"messages":[]}'],
  ])('%s', (_how, body) => {
    expect(keyOf(callOf(body))).toBe(key);
  });

  test('tried again, with an idempotency key of its own', () => {
    expect(keyOf(callOf('{"messages":[]}', { forwardedHeaders: { 'idempotency-key': 'a' } }))).toBe(key);
  });

  test.each<[string, string]>([
    ['another project', keyOf(question, { projectId: 'project-2' })],
    ['another dialect', keyOf(callOf('{"messages":[]}', { route: 'messages' }))],
    ['other candidates', keyOf(question, { candidates: [candidate, { ...candidate, id: 'two/m' }] })],
    ['another order of candidates', keyOf(question, { candidates: [{ ...candidate, id: 'two/m' }, candidate] })],
    ['another bound of a candidate', keyOf(question, { candidates: [{ ...candidate, maxOutputTokens: 10 }] })],
    ['another configuration', keyOf(question, { revision: 1 })],
    ['a beta header', keyOf(callOf('{"messages":[]}', { forwardedHeaders: { 'anthropic-beta': 'tools' } }))],
    ['other white space', keyOf(callOf('{"messages": []}'))],
    ['a number that is written differently', keyOf(callOf('{"messages":[],"seed":1.0}'))],
    ['what a parser would leave out', keyOf(callOf('{"messages":[],"seed":1,"seed":1}'))],
    ['an inner member of that name', keyOf(callOf('{"messages":[],"metadata":{"model":"x"}}'))],
  ])('is another one with %s', (_what, other) => {
    expect(other).not.toBe(key);
  });

  test('two orders of candidates are never the same', () => {
    const two = { ...candidate, id: 'two/m' };
    expect(keyOf(question, { candidates: [candidate, two] })).not.toBe(keyOf(question, { candidates: [two, candidate] }));
  });
});

describe('an answer is kept', () => {
  test('and comes back as it was, read for memory, with the model that gave it', () => {
    const { lookUp, keep, cache } = lendCache();
    expect(lookUp(question).hit).toBeNull();
    keep(question, answer('Hi'));
    const { hit, writer: recording } = lookUp(question);
    expect(hit).toMatchObject({ contentType, model: 'one/m', reading: { turn: { text: 'Hi', toolCalls: [] } } });
    expect(hit?.bytes).toEqual(answer('Hi'));
    expect(recording).toBeNull();
    expect(cache.state()).toMatchObject({ entries: 1, hits: 1, misses: 2, kept: 1, evicted: 0 });
  });

  test('only when its end was said: what was begun and not kept is forgotten', () => {
    const { lookUp, isKept } = lendCache();
    lookUp(question).writer?.append(answer('Hi'));
    expect(isKept(question)).toBe(false);
  });

  test('in a buffer of its own, whatever the pieces were views of', () => {
    const { lookUp } = lendCache();
    const large = Buffer.alloc(1_000_000, 0x20);
    const bytes = answer('Hi');
    bytes.copy(large, 500);
    const { writer: recording } = lookUp(question);
    recording?.append(large.subarray(500, 510));
    recording?.append(large.subarray(510, 500 + bytes.length));
    recording?.commit({ contentType, model: 'one/m' });
    large.fill(0);
    const { hit } = lookUp(question);
    expect(hit?.bytes).toEqual(bytes);
    expect(hit?.bytes.buffer.byteLength).toBe(bytes.length);
  });

  test('up to its time, not longer', () => {
    const { keep, isKept, advance, cache } = lendCache();
    keep(question, answer('Hi'));
    advance(599_999);
    expect(isKept(question)).toBe(true);
    advance(1);
    expect(isKept(question)).toBe(false);
    expect(cache.state()).toMatchObject({ entries: 0, bytes: 0 });
  });

  test('as long as the project says now, where that is less than it said then', () => {
    const { keep, lookUp, advance } = lendCache();
    keep(question, answer('Hi'));
    advance(1_000);
    expect(lookUp(question, { ttlMs: 900_000 }).hit).not.toBeNull();
    expect(lookUp(question, { ttlMs: 1_000 }).hit).toBeNull();
  });

  test('and one whose time is over leaves when another comes', () => {
    const { keep, advance, cache } = lendCache();
    keep(question, answer('Hi'));
    advance(600_000);
    keep(callOf('{"messages":[1]}'), answer('Ho'));
    expect(cache.state()).toMatchObject({ entries: 1, evicted: 0 });
  });

  test('not when it is larger than its bound', () => {
    const { keep, isKept } = lendCache({ maxAnswerBytes: 2_000 });
    keep(question, answer('x'.repeat(2_000)));
    expect(isKept(question)).toBe(false);
    keep(question, answer('x'.repeat(1_500)));
    expect(isKept(question)).toBe(true);
  });

  test('not longer than there is room: the one longest unused goes first, by bytes', () => {
    const { keep, isKept, cache } = lendCache({ maxBytes: 40_000 });
    const [a, b, c] = ['[1]', '[2]', '[3]'].map((list) => callOf(`{"messages":${list}}`));
    if (!a || !b || !c) throw new Error('three calls');
    keep(a, answer('x'.repeat(15_000)));
    keep(b, answer('x'.repeat(15_000)));
    expect(isKept(a)).toBe(true);
    keep(c, answer('x'.repeat(15_000)));
    expect([isKept(a), isKept(b), isKept(c)]).toEqual([true, false, true]);
    const { bytes, evicted } = cache.state();
    expect(evicted).toBe(1);
    expect(bytes).toBeLessThanOrEqual(40_000);
    expect(bytes).toBeGreaterThan(30_000);
  });

  test('small answers count with what keeping them costs', () => {
    const { keep, cache } = lendCache({ maxBytes: 100_000 });
    for (let n = 0; n < 1_000; n += 1) keep(callOf(`{"messages":[${n}]}`), answer('Hi'));
    expect(cache.state().entries).toBeLessThan(100);
    expect(cache.state().bytes).toBeLessThanOrEqual(100_000);
  });
});

describe('who does not want it', () => {
  test('a project that has it off gets nothing and leaves nothing', () => {
    const { keep, lookUp } = lendCache();
    keep(question, answer('Hi'));
    expect(lookUp(question, { enabled: false })).toEqual({ hit: null, recording: null });
  });

  test('no-cache reads nothing and keeps what comes; no-store does neither', () => {
    const { keep, lookUp } = lendCache();
    keep(question, answer('old'));
    const fresh = callOf('{"messages":[]}', { cache: { reads: false, writes: true } });
    expect(lookUp(fresh).hit).toBeNull();
    keep(fresh, answer('new'));
    expect(lookUp(question).hit?.reading.turn.text).toBe('new');
    expect(lookUp(callOf('{"messages":[]}', { stream: true })).hit?.reading.turn.text).toBe('new');
    const events = 'data: {"id":"c","choices":[{"index":0,"delta":{"content":"newest"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n';
    keep(callOf('{"messages":[]}', { stream: true, cache: { reads: false, writes: true } }), Buffer.from(events));
    expect(lookUp(question).hit?.reading.turn.text).toBe('newest');
    expect(lookUp(callOf('{"messages":[]}', { cache: { reads: false, writes: false } }))).toEqual({ hit: null, recording: null });
  });

  test('max-age reads what is younger, leaves what is older to others, and renews it', () => {
    const { keep, lookUp, isKept, advance } = lendCache();
    const within = (maxAgeMs: number): Call => callOf('{"messages":[]}', { cache: { reads: true, writes: true, maxAgeMs } });
    keep(question, answer('old'));
    advance(5_000);
    expect([isKept(within(5_001)), isKept(within(5_000)), isKept(within(0)), isKept(question)]).toEqual([true, false, false, true]);
    keep(within(5_000), answer('new'));
    expect(lookUp(question).hit?.reading.turn.text).toBe('new');
    expect(isKept(within(1))).toBe(true);
  });

  test('routes without a cache', () => {
    const { lookUp } = lendCache();
    expect(lookUp(callOf('{"messages":[]}', { route: 'responses' }))).toEqual({ hit: null, recording: null });
  });
});

describe('both forms', () => {
  const streamed = callOf('{"messages":[],"stream":true}', { stream: true });

  test('share an answer that can be told in both', () => {
    const { keep, lookUp } = lendCache();
    keep(question, answer('Hi'));
    const { hit } = lookUp(streamed);
    expect(hit).toMatchObject({ contentType: 'text/event-stream', reading: { turn: { text: 'Hi' }, finished: true } });
    expect(hit?.bytes.toString()).toMatch(/"content":"Hi"[\s\S]*data: \[DONE\]\n\n$/);
  });

  test('have one each where it cannot', () => {
    const { keep, lookUp, isKept } = lendCache();
    const probable = Buffer.from(
      answer('Hi').toString().replace('"finish_reason"', '"logprobs":{"content":[{"token":"Hi"}]},"finish_reason"'),
    );
    keep(question, probable);
    expect(isKept(streamed)).toBe(false);
    const events = Buffer.from(
      'data: {"id":"c","choices":[{"index":0,"delta":{"content":"Ho"},"logprobs":{"content":[]},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
    );
    keep(streamed, events);
    expect(lookUp(question).hit?.bytes).toEqual(probable);
    expect(lookUp(streamed).hit?.bytes).toEqual(events);
  });
});

test('a kept stream is given in small pieces, as they are asked for, and the last one is known before it leaves', async () => {
  const { keep, lookUp } = lendCache();
  const streamed = callOf('{"messages":[],"stream":true}', { stream: true });
  keep(streamed, Buffer.concat([Buffer.from(': note\n\n'.repeat(5_000)), Buffer.from('data: [DONE]\n\n')]));
  const { hit } = lookUp(streamed);
  if (!hit) throw new Error('nothing was kept');
  const pieces = [];
  for await (const piece of replayCached(hit).pieces()) pieces.push(piece);
  expect(Buffer.concat(pieces.map(({ bytes }) => bytes))).toEqual(hit.bytes);
  expect(Math.max(...pieces.map(({ bytes }) => bytes.length))).toBeLessThanOrEqual(16 * 1024);
  expect(pieces.map(({ isLast: last }) => last)).toEqual([false, false, true]);
});

describe('erasure', () => {
  const about = (subject: string, more: Partial<Call> & { projectId?: string } = {}) =>
    callOf(`{"messages":["${subject}"]}`, { memory: { mode: 'write', explicitWrite: false, subject }, ...more });
  const sha256 = (subject: string): string => createHash('sha256').update(subject).digest('hex');

  test('of a subject takes what was kept of calls about it in this project, and says how many', () => {
    const { keep, isKept, cache } = lendCache();
    keep(about('ada'), answer('1'));
    keep(about('ada', { forwardedHeaders: { 'openai-beta': 'x' } }), answer('2'));
    keep(about('bob'), answer('3'));
    keep(about('ada', { projectId: 'project-2' }), answer('4'));
    keep(question, answer('5'));
    expect(cache.invalidateSubject('project-1', sha256('ada'))).toBe(2);
    expect(cache.invalidateSubject('project-1', sha256('ada'))).toBe(0);
    expect([isKept(about('ada')), isKept(about('bob')), isKept(about('ada', { projectId: 'project-2' })), isKept(question)]).toEqual([
      false,
      true,
      true,
      true,
    ]);
  });

  test('also reaches calls that were under way: what they bring is not kept; later ones are', () => {
    const { lookUp, keep, isKept, cache, advance } = lendCache();
    const { writer: recording } = lookUp(about('ada'));
    advance(10);
    cache.invalidateSubject('project-1', sha256('ada'));
    recording?.append(answer('Hi'));
    recording?.commit({ contentType, model: 'one/m' });
    expect(isKept(about('ada'))).toBe(false);
    keep(about('ada', { startedAt: 2_000 }), answer('Hi'));
    expect(isKept(about('ada'))).toBe(true);
  });

  test('of a project takes all of it', () => {
    const { keep, isKept, cache } = lendCache();
    keep(question, answer('1'));
    keep(about('ada'), answer('2'));
    keep(callOf('{"messages":[]}', { projectId: 'project-2' }), answer('3'));
    expect(cache.invalidateProject('project-1')).toBe(2);
    expect([isKept(question), isKept(callOf('{"messages":[]}', { projectId: 'project-2' }))]).toEqual([false, true]);
  });
});
