import { randomBytes } from 'node:crypto';
import { request } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { Payload, PayloadCodec } from '@temporalio/common';
import { type CodecServer, createCodecServer } from '../../src/codec-server/codec-server.ts';
import { createDataConverter } from '../../src/temporal/payloads/data-converter.ts';
import { createTestLog, type LogLine } from '../support/temporal.ts';

const adminToken = 'admin-token-of-the-test';
const uiOrigin = 'http://127.0.0.1:8233';
const key = randomBytes(32);
const planted = { project_id: 'planted-0198c5f2' };

let server: CodecServer;
let now = 0;
let lines: LogLine[] = [];

beforeEach(async () => {
  server = await start();
});
afterEach(() => server.close());

async function start(changes: { publicUrl?: string; payloadKeys?: Uint8Array[] } = {}): Promise<CodecServer> {
  const log = createTestLog();
  lines = log.lines;
  now = Date.parse('2026-11-22T10:00:00Z');
  const settings = { host: '127.0.0.1', port: 0, uiOrigins: [uiOrigin], publicUrl: null, adminTokens: [adminToken], payloadKeys: [key] };
  return createCodecServer({ ...settings, ...changes, clock: { now: () => now }, logger: log.logger });
}

/** Returns a payload as JSON, either encrypted with a key or plain. */
async function encode(value: unknown, payloadKeys: Uint8Array[], mark: Payload['metadata'] = {}): Promise<object> {
  const plain: Payload = {
    metadata: { encoding: Buffer.from('json/plain'), ...mark },
    data: Buffer.from(JSON.stringify(value)),
  };
  return toJson(await through(createDataConverter(payloadKeys).payloadCodecs ?? [], plain, 'encode'));
}

async function through(codecs: readonly PayloadCodec[], payload: Payload, direction: 'encode' | 'decode'): Promise<Payload> {
  let payloads = [payload];
  for (const codec of direction === 'encode' ? codecs : codecs.toReversed()) payloads = await codec[direction](payloads);
  return payloads[0] ?? {};
}

function toJson({ metadata, data }: Payload): object {
  const members = Object.entries(metadata ?? {}).map(([name, bytes]) => [name, Buffer.from(bytes).toString('base64')]);
  return { metadata: Object.fromEntries(members), data: Buffer.from(data ?? []).toString('base64') };
}

/** Returns the payloads of a response. */
async function payloadsOf(response: Response): Promise<{ metadata: Record<string, string>; data: string }[]> {
  const body = (await response.json()) as { payloads: { metadata: Record<string, string>; data: string }[] };
  return body.payloads;
}

async function errorOf(response: Response): Promise<{ message: string; sign_in_url?: string }> {
  const body = (await response.json()) as { error: { message: string } };
  return body.error;
}

function contentOf(payload: { data: string }): unknown {
  return JSON.parse(Buffer.from(payload.data, 'base64').toString());
}

/** Returns the server's own origin at its local address, whatever the public one is. */
function ownOrigin(): string {
  return `http://127.0.0.1:${server.port}`;
}

function* repeat(chunk: Buffer): Generator<Buffer> {
  for (;;) yield chunk;
}

function send(path: string, init: RequestInit = {}): Promise<Response> {
  return fetch(ownOrigin() + path, { redirect: 'manual', ...init });
}

function signIn(token: string, origin = ownOrigin()): Promise<Response> {
  return send('/sign-in', { method: 'POST', headers: { origin }, body: new URLSearchParams({ token }) });
}

async function sessionCookie(): Promise<string> {
  const { headers } = await signIn(adminToken);
  return headers.get('set-cookie')?.split(';', 1)[0] ?? '';
}

function convert(path: '/decode' | '/encode', payloads: unknown, headers: Readonly<Record<string, string>> = {}): Promise<Response> {
  const given = { 'content-type': 'application/json', 'x-namespace': 'default', origin: uiOrigin, ...headers };
  return send(path, { method: 'POST', headers: given, body: typeof payloads === 'string' ? payloads : JSON.stringify({ payloads }) });
}

describe('requests from the Temporal UI', () => {
  test('decrypts Temporal payloads and failures for a signed-in user', async () => {
    const plain = { metadata: { encoding: 'anNvbi9wbGFpbg==', other: 'eA==' }, data: 'MQ==' };
    const failure = { message: 'the vendor said something', stack_trace: '' };
    const encrypted = [await encode(planted, [key]), plain, await encode(failure, [key], { 'gateway-failure': Uint8Array.of(1) })];
    const response = await convert('/decode', encrypted, { cookie: await sessionCookie() });
    expect(response.status).toBe(200);
    const payloads = await payloadsOf(response);
    expect(payloads.map(contentOf)).toEqual([planted, 1, failure]);
    expect(payloads[1]).toEqual(plain);
    expect(response.headers.get('access-control-allow-origin')).toBe(uiOrigin);
    expect(response.headers.get('access-control-allow-credentials')).toBe('true');
    expect(response.headers.get('vary')).toContain('origin');
  });

  test('encrypts new payloads with the first configured key', async () => {
    const cookie = await sessionCookie();
    const encoded = await payloadsOf(await convert('/encode', [await encode(planted, [])], { cookie }));
    expect(JSON.stringify(encoded)).not.toContain(Buffer.from(JSON.stringify(planted)).toString('base64'));
    expect(Buffer.from(encoded[0]?.metadata.encoding ?? '', 'base64').toString()).toBe('binary/encrypted');
    const decoded = await payloadsOf(await convert('/decode', encoded, { cookie }));
    expect(decoded.map(contentOf)).toEqual([planted]);
  });

  test.each([
    ['text', { note: 'a private sentence' }, {}],
    ['text that claims to be a failure', { message: 'a private sentence' }, { 'gateway-failure': 'AQ==' }],
  ])('returns 400 instead of encrypting %s', async (_case, value, metadata) => {
    const data = Buffer.from(JSON.stringify(value)).toString('base64');
    const payload = { metadata: { encoding: 'anNvbi9wbGFpbg==', ...metadata }, data };
    const response = await convert('/encode', [payload], { cookie: await sessionCookie() });
    expect(response.status).toBe(400);
    const body = await response.text();
    expect(body).toContain('only ids, counts, hashes and RFC 3339 times may be sent to Temporal');
    expect(body).not.toContain('private');
  });

  test("shows the reason in place of a payload that can't be decrypted", async () => {
    const known = { ...(await encode(planted, [key])) };
    const damaged = { ...(await encode(planted, [key])), data: randomBytes(64).toString('base64') };
    const unknown = await encode(planted, [randomBytes(32)]);
    const response = await convert('/decode', [unknown, known, damaged], { cookie: await sessionCookie() });
    const payloads = await payloadsOf(response);
    expect(payloads.map(contentOf)).toEqual([
      { message: expect.stringMatching(/^cannot be decrypted: TEMPORAL_PAYLOAD_KEY does not contain the key [0-9a-f]{16}$/) },
      planted,
      { message: expect.stringMatching(/^cannot be decrypted: /) },
    ]);
  });

  test('returns 401 and the address of the sign-in page if there is no session', async () => {
    const payloads = [await encode(planted, [key])];
    const anonymous = await convert('/decode', payloads);
    expect(anonymous.status).toBe(401);
    expect(anonymous.headers.get('access-control-allow-origin')).toBe(uiOrigin);
    expect(await errorOf(anonymous)).toEqual({
      message: expect.stringContaining('sign in at http://127.0.0.1'),
      sign_in_url: `${ownOrigin()}/`,
    });
    expect((await convert('/decode', payloads, { cookie: 'gateway-codec=guess' })).status).toBe(401);

    const [ended, expired] = [await sessionCookie(), await sessionCookie()];
    await send('/sign-out', { method: 'POST', headers: { cookie: ended, origin: ownOrigin() } });
    expect((await convert('/decode', payloads, { cookie: ended })).status).toBe(401);
    expect((await convert('/decode', payloads, { cookie: expired })).status).toBe(200);
    now += 8 * 3_600_000;
    expect((await convert('/decode', payloads, { cookie: expired })).status).toBe(401);
  });

  test.each([
    ['http://127.0.0.1:8234'],
    ['https://127.0.0.1:8233'],
    ['http://127.0.0.1:8233.example.com'],
    ['http://localhost:8233'],
    ['null'],
  ])('returns 403 to pages from origin %s, even with a valid session', async (origin) => {
    const response = await convert('/decode', [], { cookie: await sessionCookie(), origin });
    expect(response.status).toBe(403);
    const preflight = await send('/decode', { method: 'OPTIONS', headers: { origin, 'access-control-request-method': 'POST' } });
    expect(preflight.status).toBe(403);
    for (const { headers } of [response, preflight]) {
      expect(headers.get('access-control-allow-origin')).toBeNull();
      expect(headers.get('vary')).toContain('origin');
    }
  });

  test('returns 401 if a request with a session cookie has no Origin header', async () => {
    const response = await send('/decode', {
      method: 'POST',
      headers: { 'content-type': 'application/json', cookie: await sessionCookie() },
      body: '{"payloads":[]}',
    });
    expect(response.status).toBe(401);
  });

  test('allows the headers of the Temporal UI in CORS preflight responses', async () => {
    const headers = {
      origin: uiOrigin,
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'content-type,x-namespace',
    };
    const response = await send('/encode', { method: 'OPTIONS', headers });
    expect(response.status).toBe(204);
    expect(response.headers.get('access-control-allow-origin')).toBe(uiOrigin);
    expect(response.headers.get('access-control-allow-headers')).toContain('x-namespace');
    expect(response.headers.get('access-control-allow-methods')).toBe('POST');
  });

  test.each([
    [400, 'is not JSON', '{'],
    [400, 'has no payloads', '{"payloads": 1}'],
    [400, 'has a null payload', '{"payloads": [null]}'],
    [400, 'has invalid base64 data', '{"payloads": [{"metadata": {}, "data": "{}"}]}'],
    [400, 'has invalid base64 metadata', '{"payloads": [{"metadata": {"encoding": 1}}]}'],
    [413, 'is too large', `{"payloads": [${' '.repeat(4 * 1024 * 1024)}]}`],
  ])('returns %i if the body %s', async (status, _case, body) => {
    const response = await convert('/decode', body, { cookie: await sessionCookie() });
    expect(response.status).toBe(status);
    expect((await errorOf(response)).message).not.toBe('');
  });

  test('the codec server closes the connection if a request body never ends', async () => {
    const headers = { 'content-type': 'application/json', origin: uiOrigin, cookie: await sessionCookie() };
    const post = request(`${ownOrigin()}/decode`, { method: 'POST', headers });
    const endless = Readable.from(repeat(Buffer.alloc(64 * 1024, ' ')), { objectMode: false, highWaterMark: 1 });
    await expect(pipeline(endless, post)).rejects.toThrow();
    expect(post.socket?.bytesWritten).toBeGreaterThan(8 * 1024 * 1024);
  });

  test("returns 415 if the content type isn't JSON", async () => {
    expect((await convert('/decode', [], { cookie: await sessionCookie(), 'content-type': 'text/plain' })).status).toBe(415);
  });
});

test('accepts requests from the Temporal CLI only with the admin token', async () => {
  const post = (token: string, headers: Readonly<Record<string, string>> = {}): Promise<Response> => {
    const given = { 'content-type': 'application/json', authorization: `Bearer ${token}`, ...headers };
    return send('/decode', { method: 'POST', headers: given, body: '{"payloads":[]}' });
  };
  expect(await payloadsOf(await post(adminToken))).toEqual([]);
  expect((await post(adminToken, { origin: uiOrigin })).status).toBe(401);
  for (let attempt = 1; attempt <= 10; attempt += 1) expect((await post(`wrong-${attempt}`)).status).toBe(401);
  expect((await post('wrong-11')).status).toBe(429);
  expect((await post(adminToken)).status).toBe(200);
});

describe('the sign-in page', () => {
  test('the sign-in page sends headers that prevent framing, caching and scripts', async () => {
    const { headers } = await send('/');
    expect(headers.get('content-security-policy')).toMatch(/default-src 'none'.*form-action 'self'.*frame-ancestors 'none'/);
    expect(headers.get('cache-control')).toBe('no-store');
    expect(headers.get('x-content-type-options')).toBe('nosniff');
  });

  test('redirects to the host name that the Temporal UI uses, so that cookies work', async () => {
    const response = await fetch(`http://localhost:${server.port}/`, { redirect: 'manual' });
    expect(response.status).toBe(303);
    expect(response.headers.get('location')).toBe(`${ownOrigin()}/`);
  });

  test('sets an HttpOnly, SameSite=Lax session cookie on localhost', async () => {
    const { status, headers } = await signIn(adminToken);
    expect(status).toBe(303);
    expect(headers.get('set-cookie')).toMatch(/^gateway-codec=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax; Max-Age=28800$/);
    const page = await send('/', { headers: { cookie: headers.get('set-cookie')?.split(';', 1)[0] ?? '' } });
    expect(await page.text()).toContain('You are signed in until 2026-11-22T18:00:00Z');
  });

  test('sets a __Host- session cookie if the public URL uses https', async () => {
    await server.close();
    server = await start({ publicUrl: 'https://codec.example.com' });
    const { status, headers } = await signIn(adminToken, server.url);
    expect(status).toBe(303);
    expect(headers.get('set-cookie')).toMatch(/^__Host-gateway-codec=[\w-]{43}; Path=\/; HttpOnly; SameSite=None; Max-Age=28800; Secure$/);
    expect((await signIn(adminToken, ownOrigin())).status).toBe(403);
  });

  test('returns 401 for a wrong admin token and 429 after ten wrong attempts', async () => {
    for (let attempt = 1; attempt <= 10; attempt += 1) expect((await signIn(`wrong-${attempt}`)).status).toBe(401);
    const limited = await signIn('wrong-11');
    expect(limited.status).toBe(429);
    expect(limited.headers.get('retry-after')).toBe('60');
    expect(limited.headers.get('set-cookie')).toBeNull();
    expect((await signIn(adminToken)).status).toBe(303);
    now += 60_000;
    expect((await signIn('wrong-12')).status).toBe(401);
  });

  test('returns 403 if the sign-in form is submitted from another origin', async () => {
    for (const origin of [uiOrigin, 'https://evil.example', 'null']) {
      const response = await signIn(adminToken, origin);
      expect(response.status).toBe(403);
      expect(response.headers.get('set-cookie')).toBeNull();
    }
  });
});

test("the codec server doesn't log tokens or payloads", async () => {
  await signIn('a-wrong-token');
  await convert('/decode', [await encode(planted, [key])], { cookie: await sessionCookie() });
  expect(lines.map(({ message }) => message)).toEqual(['rejected a sign-in to the codec server', 'signed in to the codec server']);
  const text = JSON.stringify(lines);
  for (const secret of ['planted', 'a-wrong-token', adminToken, key.toString('base64')]) expect(text).not.toContain(secret);
});
