/** Tests that a large JSON body never keeps the event loop busy, and gets the same response as a small one. */
import { mock } from 'node:test';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { asObject, isObject } from '../../src/core/json/narrow.ts';
import { largeBytes } from '../../src/core/low-priority-thread.ts';
import { threadBytes } from '../../src/http/body-parser.ts';
import { describeApi } from '../../src/http/openapi.ts';
import { isExhaustive } from '../support/exhaustive.ts';
import { shareGateway } from '../support/gateway.ts';
import { unknownId } from './memory-routes.ts';

const shared = shareGateway({ database: 'any' });

/** All operations of `/v1` with a JSON body. */
const operations = Object.entries(asObject(describeApi().paths)).flatMap(([path, methods]) =>
  Object.entries(asObject(methods)).flatMap(([method, operation]) => {
    const json = asObject(asObject(asObject(asObject(operation).requestBody).content)['application/json']);
    if (!path.startsWith('/v1/') || json.schema === undefined) return [];
    return [{ method: method.toUpperCase(), path: path.replaceAll(/\{\w+\}/g, unknownId), example: json.example ?? {} }];
  }),
);

/** The text routes parse bodies of up to this size on the event loop, because conversations are often this large. */
const textRoutes = /^\/v1\/(?:chat\/completions|completions|messages.*|embeddings|moderations|rerank|responses)$/;
const limitOf = (path: string): number => (textRoutes.test(path) ? largeBytes : threadBytes);

const wrongFields = {
  ...{ model: 'nobody/knows', messages: 5, input: {}, prompt: 7, text: 5, query: 5, kinds: Array(30).fill(0), limit: 'x', subject: 5 },
  ...{ operation: 5, uri: 5, rating: 5, memories: [{ id: 'x' }, 3, [[]]], focus: 5, dry_run: false, documents: 3, n: 'x', size: 5 },
};

/** Bodies for all operations. Padding one with spaces makes it large without changing what it means. */
const bodies: readonly [name: string, text: string | Buffer][] = [
  ["isn't valid JSON", '{"a" 1}'],
  ['ends too early', '{"a":'],
  ['has something after its end', '{} 1'],
  ["isn't UTF-8", Buffer.from('{"a":"\xff"}', 'latin1')],
  ['starts with a byte-order mark', '\ufeff{}'],
  ['is null', 'null'],
  ['is a list', '[{},{}]'],
  ['is a string', '"\\u0061"'],
  ['is an empty object', '{}'],
  ['has fields of the wrong type', JSON.stringify(wrongFields)],
  ['repeats fields', '{"model":"a/b","model":"c/d","operation":"a","operation":"b","uri":"a","uri":"b","query":1,"query":2}'],
  ['has escaped keys', '{"\\u0061":[{},{}],"\\u0071uery":5,"m\\u006fdel":5}'],
  ['asks for a pinned memory', '{"pinned":true,"text":5}'],
];

const spy = mock.method(Worker.prototype, 'postMessage');
beforeEach(() => spy.mock.resetCalls());
afterEach(() => spy.mock.resetCalls());

/** How many bodies the event loop has sent to another thread. */
function countJobs(): number {
  return spy.mock.calls.filter(({ arguments: [message] }) => isObject(message) && isObject(message.input) && 'bytes' in message.input)
    .length;
}

interface Answer {
  readonly status: number;
  readonly type: string | null;
  readonly text: string;
}

async function send(method: string, path: string, body: Buffer, more: Readonly<Record<string, string>> = {}): Promise<Answer> {
  const { url, key } = shared();
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...more };
  const response = await fetch(`${url}${path}`, { method, headers, body: new Uint8Array(body) });
  return { status: response.status, type: response.headers.get('content-type'), text: await response.text() };
}

const pad = (body: Buffer, size: number): Buffer => Buffer.concat([body, Buffer.alloc(size - body.length, ' ')]);

test('finds the API operations that accept a JSON body', () => {
  expect(operations.length).toBeGreaterThan(15);
});

/** Each operation gets every fourth body, and each body goes to every fourth operation. Exhaustive runs try all pairs. */
const sampled = operations.map((operation, place) => ({
  ...operation,
  sample: bodies.filter((_, index) => isExhaustive || (place + index) % 4 === 0),
}));

describe.each(sampled)('$method $path', ({ method, path, example, sample }) => {
  test.each(sample)('responds to a large body that %s in the same way as to a small one', async (_name, text) => {
    const body = Buffer.from(text as string);
    const small = await send(method, path, body);
    expect(countJobs()).toBe(0);
    const large = await send(method, path, pad(body, limitOf(path)));
    expect(countJobs()).toBeGreaterThan(0);
    // An unfinished body ends at another position, which is part of some messages.
    const withoutPosition = ({ text: message, ...answer }: Answer) => ({ ...answer, message: message.replace(/ at byte \d+/, '') });
    if (small.status >= 400) expect(withoutPosition(large)).toEqual(withoutPosition(small));
    else expect({ ...large, text: '' }).toEqual({ ...small, text: '' });
  });

  test('parses only large bodies on a thread', async () => {
    const body = Buffer.from(JSON.stringify(example));
    const small = await send(method, path, pad(body, limitOf(path) - 1));
    expect(countJobs()).toBe(0);
    const large = await send(method, path, pad(body, limitOf(path)));
    expect(countJobs()).toBeGreaterThan(0);
    expect({ ...large, text: '' }).toEqual({ ...small, text: '' });
  });
});

test.each(['/v1/chat/completions', '/v1/messages', '/v1/responses', '/v1/embeddings'])(
  'reports a syntax error before an invalid header, whatever the size of the body: %s',
  async (path) => {
    const header = { 'x-gateway-memory': 'sometimes' };
    const body = Buffer.from('{"model" 1}');
    const without = await send('POST', path, body);
    expect(await send('POST', path, body, header)).toEqual(without);
    expect(await send('POST', path, pad(body, limitOf(path)), header)).toEqual(without);
  },
);

test('reads the same values from a large memory request', async () => {
  const kinds = ['decision', 'fact'];
  const item = { text: ' we \u00e4\ud83d\ude00 "drink" tea\n', kind: 'decision', importance: 'high', subject: 'ann', x: { y: [1] } };
  const saved = await send('POST', '/v1/memory/items', pad(Buffer.from(JSON.stringify(item)), threadBytes));
  expect(JSON.parse(saved.text)).toMatchObject({
    text: 'we \u00e4\ud83d\ude00 "drink" tea',
    kind: 'decision',
    importance: 4,
    subject: 'ann',
  });
  const find = async (path: string, body: object) =>
    JSON.parse((await send('POST', path, pad(Buffer.from(JSON.stringify(body)), 2 * largeBytes))).text);
  expect(await find('/v1/memory/search', { query: 'tea', kinds, subject: 'ann' })).toMatchObject({
    memories: [{ item: { kind: 'decision' } }],
  });
  expect(await find('/v1/memory/search', { query: 'tea', kinds: ['event'] })).toMatchObject({ memories: [] });
  const messages = [
    { role: 'user', content: 'coffee' },
    { role: 'user', content: [{ type: 'text', text: ' tea \n' }] },
    { role: 'assistant', content: 'x' },
  ];
  expect(await find('/v1/memory/recall', { dry_run: true, messages })).toMatchObject({ query: 'tea' });
  expect(await find('/v1/memory/recall', { dry_run: true, text: ' tea' })).toMatchObject({ query: 'tea' });
});

test('reports only one mistake for a list that is too long', async () => {
  const kinds = `[${'0,'.repeat(200_000)}0]`;
  const searched = await send('POST', '/v1/memory/search', Buffer.from(`{"query":"tea","kinds":${kinds}}`));
  expect(searched).toMatchObject({ status: 422, text: 'the body does not match the schema: kinds: must have at most 20 entries\n' });
  const rated = await send(
    'POST',
    `/v1/memory/items/${unknownId}/rating`,
    Buffer.from(`{"rating":"useful","call_id":"${unknownId}","memories":${kinds}}`),
  );
  expect(JSON.parse(rated.text)).toMatchObject({ error: { message: 'memories: must have at most 100 entries' } });
});

test.each([
  ['/v1/chat/completions', 'three/echo', (parameters: object) => [{ type: 'function', function: { name: 'find', parameters } }]],
  ['/v1/messages', 'one/echo', (parameters: object) => [{ name: 'find', input_schema: parameters }]],
])('translates a %s request on a thread if it has many values', async (path, model, toTools) => {
  const messages = [{ role: 'user', content: 'hi' }];
  const ask = async (count: number, changes: object = {}) => {
    const properties = Object.fromEntries(Array.from({ length: count }, (_, index) => [`field ${index}`, index]));
    const tools = toTools({ type: 'object', properties });
    const body = Buffer.from(JSON.stringify({ model, max_tokens: 9, messages, tools, ...changes }));
    const answer = await send('POST', path, body);
    return { answer, size: body.length, sent: shared().vendor.requests().at(-1)?.body.toString() ?? '' };
  };
  const small = await ask(3);
  expect([small.answer.status, countJobs()]).toEqual([200, 0]);
  const large = await ask(20_000);
  expect(large.size).toBeLessThan(largeBytes);
  expect([large.answer.status, countJobs()]).toEqual([200, 1]);
  const withoutProperties = (text: string) => text.replace(/"properties":{[^}]*}/, '"properties":{}');
  expect(withoutProperties(large.sent)).toBe(withoutProperties(small.sent));
  expect(large.sent).toContain('"field 19999":19999');
  const wrong = { tools: [], messages: 5 };
  const refused = await ask(3, wrong);
  const refusedLarge = await ask(3, {
    ...wrong,
    metadata: Object.fromEntries(Array.from({ length: 20_000 }, (_, index) => [`field ${index}`, 'x'])),
  });
  expect(refused.answer.status).toBe(400);
  expect(refusedLarge.answer).toEqual(refused.answer);
});
