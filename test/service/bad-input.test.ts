/** Bad input: the specified error, and the service lives on (specification 4.1, 4.2, 5, 7). */
import { once } from 'node:events';
import { connect } from 'node:net';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { makeSecret } from '../../src/keys/secret.ts';
import type { TestGateway } from '../support/gateway.ts';
import { jsonOf, shareGateway } from '../support/gateway.ts';

/** One gateway for all of these: what one of them breaks, the others notice. */
const lent = shareGateway({});
let gateway: TestGateway;
beforeAll(() => {
  gateway = lent();
});

const chatPath = '/v1/chat/completions';
const messagesPath = '/v1/messages';
const chatBody = { model: 'one/echo', messages: [{ role: 'user', content: 'hi' }] };
const messagesBody = { model: 'three/echo', max_tokens: 5, messages: [{ role: 'user', content: 'hi' }] };

async function expectChatError(answer: Response, status: number, code: string, message: string | RegExp = /./): Promise<void> {
  expect(answer.status).toBe(status);
  expect(answer.headers.get('content-type')).toBe('application/json');
  expect(answer.headers.get('cache-control')).toBe('no-store');
  const text = await answer.text();
  expect(JSON.parse(text)).toEqual({
    error: { message: typeof message === 'string' ? message : expect.stringMatching(message), type: code, code },
  });
}

async function expectMessagesError(answer: Response, status: number, type: string, message: string | RegExp = /./): Promise<void> {
  expect(answer.status).toBe(status);
  expect(await jsonOf(answer)).toEqual({
    type: 'error',
    error: { type, message: typeof message === 'string' ? message : expect.stringMatching(message) },
  });
}

async function expectPlainText(answer: Response, status: number): Promise<void> {
  expect(answer.status).toBe(status);
  expect(answer.headers.get('content-type')).toMatch(/^text\/plain/);
}

function post(path: string, body: string | Uint8Array<ArrayBuffer>, headers: Record<string, string>): Promise<Response> {
  return fetch(gateway.url + path, { method: 'POST', body, headers: { 'content-type': 'application/json', ...headers } });
}

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

describe('keys', () => {
  it.each<[string, () => Record<string, string>]>([
    ['no header', () => ({})],
    ['another scheme', () => ({ authorization: `Basic ${gateway.key}` })],
    ['the bare key', () => ({ authorization: gateway.key })],
    ['nothing behind the scheme', () => ({ authorization: 'Bearer ' })],
    ['two spaces', () => ({ authorization: `Bearer  ${gateway.key}` })],
    ['a tab', () => ({ authorization: `Bearer\t${gateway.key}` })],
    ['a space in the key', () => ({ authorization: `Bearer ${gateway.key} x` })],
  ])('401 missing_key: %s', async (_title, headers) => {
    await expectChatError(await post(chatPath, JSON.stringify(chatBody), headers()), 401, 'missing_key');
    await expectMessagesError(await post(messagesPath, JSON.stringify(messagesBody), headers()), 401, 'authentication_error');
    await expectChatError(await fetch(`${gateway.url}/usage/me`, { headers: headers() }), 401, 'missing_key');
    await expectChatError(await fetch(`${gateway.url}/status/peek`, { headers: headers() }), 401, 'missing_key');
  });

  it.each<[string, () => string]>([
    ['malformed', () => 'sk-gw-nonsense'],
    ['another vendor’s', () => 'sk-proj-abcdefghijklmnopqrstuvwxyz'],
    ['a wrong check sum', () => `${gateway.key.slice(0, -1)}${gateway.key.endsWith('0') ? '1' : '0'}`],
    ['well-formed but unknown', () => makeSecret().secret],
  ])('401 invalid_key: %s', async (_title, key) => {
    await expectChatError(await post(chatPath, JSON.stringify(chatBody), bearer(key())), 401, 'invalid_key');
    await expectMessagesError(await post(messagesPath, JSON.stringify(messagesBody), bearer(key())), 401, 'authentication_error');
    await expectMessagesError(await post(messagesPath, JSON.stringify(messagesBody), { 'x-api-key': key() }), 401, 'authentication_error');
  });

  it('200: the scheme in any case, and x-api-key on messages alone; Authorization wins', async () => {
    expect((await post(chatPath, JSON.stringify(chatBody), { authorization: `bEARER ${gateway.key}` })).status).toBe(200);
    expect((await post(messagesPath, JSON.stringify(messagesBody), { 'x-api-key': gateway.key })).status).toBe(200);
    await expectChatError(await post(chatPath, JSON.stringify(chatBody), { 'x-api-key': gateway.key }), 401, 'missing_key');
    await expectMessagesError(
      await post(messagesPath, JSON.stringify(messagesBody), { 'x-api-key': gateway.key, ...bearer('sk-gw-no') }),
      401,
      'authentication_error',
    );
  });

  it('401 invalid_key: revoked, at once; expired', async () => {
    const issued = await jsonOf<{ key: string; prefix: string }>(
      gateway.admin('POST', '/provision/teams/acme/keys', { name: 'short-lived' }),
    );
    expect((await post(chatPath, JSON.stringify(chatBody), bearer(issued.key))).status).toBe(200);
    expect((await gateway.admin('DELETE', `/provision/teams/acme/keys/${issued.prefix}`)).status).toBe(200);
    await expectChatError(await post(chatPath, JSON.stringify(chatBody), bearer(issued.key)), 401, 'invalid_key');
    const soon = new Date(Date.now() + 400).toISOString();
    const { key } = await jsonOf<{ key: string }>(gateway.admin('POST', '/provision/teams/acme/keys', { name: 'soon', expires_at: soon }));
    expect((await post(chatPath, JSON.stringify(chatBody), bearer(key))).status).toBe(200);
    await new Promise((resolve) => setTimeout(resolve, 450));
    await expectChatError(await post(chatPath, JSON.stringify(chatBody), bearer(key)), 401, 'invalid_key');
  });

  it('a bad key is refused before content type, size and syntax are looked at', async () => {
    await expectChatError(await post(chatPath, '{', { 'content-type': 'text/plain' }), 401, 'missing_key');
  });
});

describe('bodies', () => {
  it.each([
    ['not JSON', 'hello'],
    ['cut off', '{"model":"one/echo","messages":['],
    ['empty', ''],
    ['a list', '[]'],
    ['text behind the object', '{"messages":[]} x'],
    ['trailing comma', '{"messages":[],}'],
    ['byte-order mark', '\ufeff{"messages":[]}'],
    ['control character', '{"messages":["\u0001"]}'],
  ])('400: %s', async (_title, body) => {
    await expectChatError(await gateway.call(chatPath, body), 400, 'bad_json');
    await expectMessagesError(await gateway.call(messagesPath, body), 400, 'invalid_request_error');
  });

  it('400: invalid UTF-8', async () => {
    const body = Buffer.concat([Buffer.from('{"messages":["'), Buffer.from([0xc3, 0x28]), Buffer.from('"]}')]);
    await expectChatError(await gateway.call(chatPath, body), 400, 'bad_json');
  });

  it.each([
    [{ model: 'one/echo' }, /^messages: /],
    [{ model: 'one/echo', messages: 'hi' }, /^messages: /],
    [{ model: 7, messages: [] }, /^model: /],
    [{ model: 'one/echo', messages: [], stream: 'yes' }, /^stream: /],
    [{ model: 'one/echo', messages: [], stream: null }, /^stream: /],
  ])('400 bad_json on chat names the field: %j', async (body, message) => {
    await expectChatError(await gateway.call(chatPath, body), 400, 'bad_json', message);
  });

  it('400 bad_json: a repeated key that the gateway reads, also in another spelling', async () => {
    await expectChatError(
      await gateway.call(chatPath, '{"model":"one/echo","messages":[],"\\u006dodel":"two/echo"}'),
      400,
      'bad_json',
      /^model: /,
    );
  });

  it.each([
    [{ model: 'three/echo', messages: [] }, 'max_tokens: Field required'],
    [{ model: 5, max_tokens: 5, messages: [] }, 'model: Input should be a valid string'],
    [{ model: 'three/echo', max_tokens: 5 }, 'messages: Field required'],
    [{ model: 'three/echo', max_tokens: 5, messages: {} }, 'messages: Input should be a valid list'],
    [{ model: 'three/echo', max_tokens: 'x', messages: [] }, 'max_tokens: Input should be a valid integer'],
  ])('400 on messages in the words of the vendor: %j', async (body, message) => {
    await expectMessagesError(await gateway.call(messagesPath, body), 400, 'invalid_request_error', message);
  });

  it('415: content type not JSON, or an encoded body; JSON types of all kinds pass', async () => {
    for (const headers of [
      { 'content-type': 'text/plain' },
      { 'content-type': '' },
      { 'content-encoding': 'gzip' },
      { 'content-type': 'application/jsonx' },
    ] as const) {
      await expectChatError(
        await gateway.call(chatPath, JSON.stringify(chatBody), headers as Record<string, string>),
        415,
        'unsupported_media_type',
      );
      await expectMessagesError(
        await gateway.call(messagesPath, JSON.stringify(messagesBody), headers as Record<string, string>),
        415,
        'invalid_request_error',
      );
    }
    for (const type of ['application/json; charset=utf-8', 'Application/JSON', 'application/vnd.api+json']) {
      expect((await gateway.call(chatPath, chatBody, { 'content-type': type })).status).toBe(200);
    }
  });

  it('413 plain text: more than 32 MiB, declared or not', async () => {
    const large = Buffer.alloc(33 * 1024 * 1024, 0x20);
    await expectPlainText(await gateway.call(chatPath, large), 413);
    await expectPlainText(await gateway.call(messagesPath, large), 413);
    const chunked = ReadableStream.from(Array.from({ length: 40 }, () => new Uint8Array(1024 * 1024)));
    const answer = await fetch(gateway.url + chatPath, {
      method: 'POST',
      headers: { ...bearer(gateway.key), 'content-type': 'application/json' },
      body: chunked,
      duplex: 'half',
    });
    await expectPlainText(answer, 413);
  });

  it('200: a body of 31 MiB', async () => {
    const body = `{"model":"one/echo","messages":[{"role":"user","content":"${'a'.repeat(31 * 1024 * 1024)}"}]}`;
    const answer = await gateway.call(chatPath, body);
    expect(answer.status).toBe(200);
    await answer.body?.cancel();
  });
});

describe('headers', () => {
  it('431: a header block that is too long; the service lives on', async () => {
    const answer = await gateway.call(chatPath, chatBody, { 'x-long': 'a'.repeat(40_000) });
    expect(answer.status).toBe(431);
    expect((await gateway.call(chatPath, chatBody)).status).toBe(200);
  });

  it('400 invalid_memory_mode', async () => {
    await expectChatError(await gateway.call(chatPath, chatBody, { 'x-gateway-memory': 'maybe' }), 400, 'invalid_memory_mode');
    await expectMessagesError(
      await gateway.call(messagesPath, messagesBody, { 'x-gateway-memory': 'maybe' }),
      400,
      'invalid_request_error',
    );
    for (const mode of ['', 'WRITE', 'Recall', 'off'])
      expect((await gateway.call(chatPath, chatBody, { 'x-gateway-memory': mode })).status).toBe(200);
  });

  it('400 invalid_memory_subject, only when the call is recorded', async () => {
    for (const subject of ['a'.repeat(257), '\u00c3\u0028', 'a\tb']) {
      await expectChatError(await gateway.call(chatPath, chatBody, { 'x-gateway-memory-subject': subject }), 400, 'invalid_memory_subject');
      await expectMessagesError(
        await gateway.call(messagesPath, messagesBody, { 'x-gateway-memory-subject': subject }),
        400,
        'invalid_request_error',
      );
      expect((await gateway.call(chatPath, chatBody, { 'x-gateway-memory-subject': subject, 'x-gateway-memory': 'off' })).status).toBe(200);
    }
    const longest = Buffer.from('\u{1f600}'.repeat(256)).toString('latin1');
    expect((await gateway.call(chatPath, chatBody, { 'x-gateway-memory-subject': longest })).status).toBe(200);
  });

  it('every answer of an inference route has x-gateway-call-id, errors too', async () => {
    for (const answer of [await gateway.call(chatPath, chatBody), await gateway.call(chatPath, '{'), await post(chatPath, '{}', {})]) {
      expect(answer.headers.get('x-gateway-call-id')).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7/);
      await answer.body?.cancel();
    }
  });
});

describe('routing', () => {
  it.each([
    ['nothing-like-it', 'no models available for route'],
    ['unknown/nothing', 'no models available for route'],
  ])('400 no_route: %s', async (model, message) => {
    await expectChatError(await gateway.call(chatPath, { ...chatBody, model }), 400, 'no_route', message);
    await expectMessagesError(await gateway.call(messagesPath, { ...messagesBody, model }), 400, 'invalid_request_error', message);
  });

  it('400 no_route: the key’s allow-list refuses every model', async () => {
    const { key } = await jsonOf<{ key: string }>(
      gateway.admin('POST', '/provision/teams/acme/keys', { name: 'narrow', models: ['two/echo'] }),
    );
    await expectChatError(
      await post(chatPath, JSON.stringify(chatBody), bearer(key)),
      400,
      'no_route',
      /^model not permitted for this key: /,
    );
    expect((await post(chatPath, JSON.stringify({ ...chatBody, model: 'standard' }), bearer(key))).headers.get('x-gateway-model')).toBe(
      'two/echo',
    );
  });

  it('200: a missing model is auto, which uses the tier standard', async () => {
    for (const model of [undefined, 'auto', '']) {
      const answer = await gateway.call(chatPath, { ...chatBody, model });
      expect(answer.headers.get('x-gateway-model')).toBe('one/echo');
    }
  });

  it('404 not_found: unknown address or method', async () => {
    await expectChatError(await gateway.call('/v1/nothing'), 404, 'not_found');
    await expectChatError(await gateway.call(chatPath), 404, 'not_found');
  });
});

describe('memory', () => {
  it('400 plain text for an id that is no UUID, 404 for one that is not there', async () => {
    await expectPlainText(await gateway.call('/v1/memory/episodes/nonsense'), 400);
    await expectPlainText(await gateway.call('/v1/memory/episodes/%E0%A4%A'), 400);
    await expectChatError(await gateway.call('/v1/memory/episodes/01936b1e-0000-7000-8000-000000000000'), 404, 'not_found');
  });
});

it('raw nonsense on the socket is answered 400 and harms nobody', async () => {
  const { port, hostname } = new URL(gateway.url);
  for (const bytes of [
    'GARBAGE\r\n\r\n',
    'POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n',
    '\u0000\u0001\u0002\r\n\r\n',
  ]) {
    const socket = connect(Number(port), hostname);
    socket.end(bytes, 'latin1');
    let text = '';
    socket.setEncoding('latin1').on('data', (chunk: string) => (text += chunk));
    socket.on('error', () => undefined);
    await once(socket, 'close');
    expect(text).toMatch(/^HTTP\/1\.1 400 /);
  }
  expect((await gateway.call(chatPath, chatBody)).status).toBe(200);
});

describe('what one caller sends cannot hold up the others', () => {
  it('400 no_route: a model name of 300 kB, of the kind that made log redaction slow', async () => {
    for (const unit of ['eyJ', '://a:', 'token ']) {
      const model = `one/${unit.repeat(300_000 / unit.length)}`;
      await expectChatError(await gateway.call(chatPath, { ...chatBody, model }), 400, 'no_route', 'no models available for route');
    }
  });

  it('200: a body with half a million members that nobody reads', async () => {
    const members = Array.from({ length: 500_000 }, (_, number) => `"k${number}":0`).join(',');
    const answer = await gateway.call(chatPath, `{${members},"model":"one/long-3","messages":[{"role":"user","content":"hi"}]}`);
    expect([answer.status, answer.headers.get('x-gateway-model')]).toEqual([200, 'one/long-3']);
  });

  it('200: the deadline does not count the time that the body took to come', async () => {
    const { port, hostname } = new URL(gateway.url);
    const body = JSON.stringify(chatBody);
    const socket = connect(Number(port), hostname);
    socket.write(
      `POST ${chatPath} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${gateway.key}\r\ncontent-type: application/json\r\nconnection: close\r\nx-gateway-timeout-ms: 150\r\ncontent-length: ${body.length}\r\n\r\n${body.slice(0, 5)}`,
    );
    await new Promise((resolve) => setTimeout(resolve, 300));
    socket.write(body.slice(5));
    let text = '';
    socket.setEncoding('latin1').on('data', (chunk: string) => {
      text += chunk;
    });
    await once(socket, 'close');
    expect(text).toMatch(/^HTTP\/1\.1 200 /);
  });
});
