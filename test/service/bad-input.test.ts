/**
 * Tests invalid input that specification-errors.test.ts doesn't cover, i.e. unusual spellings, limits, and the order of
 * checks. Random input is tested in fuzz.test.ts.
 */
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { connect } from 'node:net';
import { buffer, json } from 'node:stream/consumers';
import { beforeAll, describe, expect, it } from '@jest/globals';
import type { TestGateway } from '../support/gateway.ts';
import { adminToken, shareGateway } from '../support/gateway.ts';
import { expectChatError, expectPlainText, expectRouteError } from './inference-routes.ts';
import { getTexts, saveItem, search } from './memory-routes.ts';

/** One gateway for all tests, so that a test notices what another one broke. */
const lent = shareGateway({ database: 'any' });
let gateway: TestGateway;
beforeAll(() => {
  gateway = lent();
});

const chatPath = '/v1/chat/completions';
const messagesPath = '/v1/messages';
const chatBody = { model: 'one/echo', messages: [{ role: 'user', content: 'hi' }] };

function post(path: string, body: string | Uint8Array<ArrayBuffer>, headers: Record<string, string>): Promise<Response> {
  return fetch(gateway.url + path, { method: 'POST', body, headers: { 'content-type': 'application/json', ...headers } });
}

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

it('distinguishes upper and lower case in paths, as the rules of a proxy do', async () => {
  for (const path of ['/PROVISION/teams', '/Provision/teams', '/METRICS', '/V1/models', '/v1/Models', '/provision/Teams'])
    await expectChatError(await fetch(gateway.url + path, { headers: bearer(adminToken) }), 404, 'not_found');
});

describe('the key of a request', () => {
  it('accepts the authorization scheme in upper or lower case', async () => {
    expect((await post(chatPath, JSON.stringify(chatBody), { authorization: `bEARER ${gateway.key}` })).status).toBe(200);
  });

  it('rejects an invalid key before it looks at the body', async () => {
    await expectChatError(await post(chatPath, '{', { 'content-type': 'text/plain' }), 401, 'missing_key');
  });
});

/** Sends a request without changing its path. `fetch` would remove everything from the `#`. */
async function sendRaw(method: string, path: string, headers: Record<string, string>): Promise<{ status: unknown; json: unknown }> {
  const { hostname, port } = new URL(gateway.url);
  const sent = request({ method, hostname, port, path, headers, agent: false }).end();
  const [response]: IncomingMessage[] = await once(sent, 'response');
  if (!response) throw new Error('no response');
  return { status: response.statusCode, json: await json(response) };
}

/** Sends the whole body before it reads anything. Rejects if the body cannot be sent. */
async function sendThenRead({ key, type, length }: { key: string; type: string; length: number }): Promise<string> {
  const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1');
  socket.write(
    `POST ${chatPath} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\ncontent-type: ${type}\r\ncontent-length: ${length}\r\nconnection: close\r\n\r\n`,
  );
  const piece = Buffer.alloc(1024 * 1024, 'x');
  for (let rest = length; rest > 0; rest -= piece.length) {
    await new Promise<void>((sent, failed) => socket.write(piece.subarray(0, rest), (error) => (error ? failed(error) : sent())));
  }
  return (await buffer(socket)).toString();
}

describe('invalid request bodies', () => {
  it.each([
    ['not JSON', 'hello'],
    ['cut off', '{"model":"one/echo","messages":['],
    ['empty', ''],
    ['a list', '[]'],
    ['text after the object', '{"messages":[]} x'],
    ['trailing comma', '{"messages":[],}'],
    ['byte-order mark', '\ufeff{"messages":[]}'],
    ['control character', '{"messages":["\u0001"]}'],
  ])('returns 400 for an invalid body: %s', async (_title, body) => {
    await expectChatError(await gateway.call(chatPath, body), 400, 'bad_json');
    await expectRouteError(await gateway.call(messagesPath, body), { name: 'messages' }, { status: 400, code: 'bad_json' });
  });

  it('returns 400 for invalid UTF-8', async () => {
    const body = Buffer.concat([Buffer.from('{"messages":["'), Buffer.from([0xc3, 0x28]), Buffer.from('"]}')]);
    await expectChatError(await gateway.call(chatPath, body), 400, 'bad_json');
  });

  it('returns 400 bad_json for a duplicate key, even if it is escaped', async () => {
    await expectChatError(
      await gateway.call(chatPath, '{"model":"one/echo","messages":[],"\\u006dodel":"two/echo"}'),
      400,
      'bad_json',
      /^model: /,
    );
  });

  it.each([
    [{ model: 'three/echo', max_tokens: 5 }, 'messages: Field required'],
    [{ model: 'three/echo', max_tokens: 5, messages: {} }, 'messages: Input should be a valid list'],
    [{ model: 'three/echo', max_tokens: 'x', messages: [] }, 'max_tokens: Input should be a valid integer'],
  ])("returns 400 with Anthropic's error message on messages for %j", async (body, message) => {
    await expectRouteError(await gateway.call(messagesPath, body), { name: 'messages' }, { status: 400, code: 'bad_json', message });
  });

  it('returns 413 in plain text for a chunked body of more than 32 MiB', async () => {
    const chunked = ReadableStream.from(Array.from({ length: 40 }, () => new Uint8Array(1024 * 1024)));
    const answer = await fetch(gateway.url + chatPath, {
      method: 'POST',
      headers: { ...bearer(gateway.key), 'content-type': 'application/json' },
      body: chunked,
      duplex: 'half',
    });
    await expectPlainText(answer, 413);
  });

  it.each([
    ['413 for more than 32 MiB', { length: 33 * 1024 * 1024 }, 413, 'application/json'],
    ['401 for a missing key', { length: 33 * 1024 * 1024, key: '' }, 401, 'application/json'],
    ['415 for a wrong content type', { length: 33 * 1024 * 1024 }, 415, 'text/plain'],
  ])('delivers an error even if the caller sends the whole body before it reads: %s', async (_title, sent, status, type) => {
    const answer = await sendThenRead({ key: gateway.key, type, ...sent });
    expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} [^]*\r\nConnection: close\r\n\r\n.+`));
  });

  it('accepts a body of 31 MiB', async () => {
    const body = `{"model":"one/echo","messages":[{"role":"user","content":"${'a'.repeat(31 * 1024 * 1024)}"}]}`;
    const answer = await gateway.call(chatPath, body);
    expect(answer.status).toBe(200);
    await answer.body?.cancel();
  });
});

describe('request headers', () => {
  it('returns 431 for oversized headers and keeps serving', async () => {
    const answer = await gateway.call(chatPath, chatBody, { 'x-long': 'a'.repeat(40_000) });
    expect(answer.status).toBe(431);
    expect((await gateway.call(chatPath, chatBody)).status).toBe(200);
  });

  it('adds x-gateway-call-id to every response, including errors', async () => {
    for (const answer of [await gateway.call(chatPath, chatBody), await gateway.call(chatPath, '{'), await post(chatPath, '{}', {})]) {
      expect(answer.headers.get('x-gateway-call-id')).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7/);
      await answer.body?.cancel();
    }
  });
});

describe('URLs', () => {
  it('returns 404 not_found for an unknown path or method', async () => {
    await expectChatError(await gateway.call('/v1/nothing'), 404, 'not_found', 'GET /v1/nothing: there is no such path');
    await expectChatError(await gateway.call(chatPath), 404, 'not_found', 'GET /v1/chat/completions: use POST');
    await expectChatError(await gateway.admin('DELETE', '/provision/teams'), 404, 'not_found');
    for (const path of [chatPath, '/usage/me', '/provision/teams', '/provision/catalog'])
      await expectChatError(await gateway.admin('OPTIONS', path), 404, 'not_found');
  });

  it.each([
    ['the version is missing', 'POST', '/chat/completions', '/v1/chat/completions'],
    ['the version appears twice', 'POST', '/v1/v1/messages?beta=true', '/v1/messages'],
    ['there is a double slash', 'POST', '/v1/audio//speech', '/v1/audio/speech'],
    ['the path needs no version', 'GET', '/v1/usage/me', '/usage/me'],
    ['the path has a typo', 'POST', '/v1/chat/completion', '/v1/chat/completions'],
  ])('suggests the correct path in a 404 if %s', async (_why, method, path, meant) => {
    const answer = await gateway.call(path, method === 'GET' ? undefined : {});
    await expectChatError(answer, 404, 'not_found', `${method} ${path.split('?', 1)[0]}: did you mean ${meant}?`);
  });

  it('returns 404 in the messages style for a wrong method or path below /v1/messages', async () => {
    for (const [method, path, message] of [
      ['GET', '/v1/messages', 'GET /v1/messages: use POST'],
      ['DELETE', '/v1//messages?beta=true', 'DELETE /v1/messages: use POST'],
      ['GET', '/v1/messages/count_tokens', 'GET /v1/messages/count_tokens: use POST'],
      ['POST', '/v1/messages/batches', 'POST /v1/messages/batches: there is no such path'],
      ['GET', 'http://gateway.example/v1/messages', 'GET /v1/messages: use POST'],
    ] as const) {
      const json = { type: 'error', error: { type: 'not_found_error', message } };
      expect([path, await sendRaw(method, path, bearer(gateway.key))]).toEqual([path, { status: 404, json }]);
    }
  });

  it('returns 400 bad_request for an unencoded # instead of ignoring the rest of the path', async () => {
    const saved = await saveItem(gateway, { text: 'stays', subject: 'user' });
    const message = 'url: must not contain a #, write %23 instead';
    for (const [method, path, key] of [
      ['DELETE', '/v1/memory/subjects/user#42', gateway.key],
      ['DELETE', '/v1/memory/subjects?subject=.#a', gateway.key],
      ['DELETE', `/v1/memory/items/${saved.id}#a`, gateway.key],
      ['GET', '/v1/models/one/echo#a', gateway.key],
      ['DELETE', `/provision/teams/${gateway.project}/applications/bot#2`, adminToken],
      ['POST', '/console/sign-in#a', ''],
    ] as const)
      expect([path, await sendRaw(method, path, bearer(key))]).toEqual([
        path,
        { status: 400, json: { error: { type: 'bad_request', code: 'bad_request', message } } },
      ]);
    expect(await sendRaw('POST', '/v1/messages#a', bearer(gateway.key))).toEqual({
      status: 400,
      json: { type: 'error', error: { type: 'invalid_request_error', message } },
    });
    expect(getTexts(await search(gateway, { query: 'stays', subject: 'user' }))).toEqual(['stays']);
  });

  it("doesn't suggest operator paths in a 404", async () => {
    await expectChatError(await gateway.call('/rovision/teams'), 404, 'not_found', 'GET /rovision/teams: there is no such path');
    await expectChatError(await gateway.call(`/${'x'.repeat(5_000)}`), 404, 'not_found', `GET /${'x'.repeat(199)}: there is no such path`);
  });

  it("returns 400 bad_request for text that the database can't store", async () => {
    for (const body of [{ name: 'a\u0000' }, { tiers: { '\ud800': [] } }, { tiers: { own: ['one/\u0000'] } }, { x: ['\\\u0000'] }])
      await expectChatError(await gateway.admin('PUT', '/provision/teams/acme', body), 400, 'bad_request', /U\+0000 or lone surrogates/);
    for (const path of ['/provision/teams/%00', '/provision/teams/acme/keys/%00', '/provision/teams/acme/calls?source=%00'])
      await expectChatError(await gateway.admin('GET', path), 400, 'bad_request', /U\+0000/);
    // `u0000` after an escaped backslash is not an escape.
    expect((await gateway.admin('PUT', '/provision/teams/acme', { name: '\\u0000' })).status).toBe(200);
  });

  it('returns 400 in plain text for a provisioning body that repeats a key', async () => {
    const path = `/provision/teams/${gateway.project}`;
    for (const [url, body] of [
      [path, '{"may_call":true,"may_call":false}'],
      [`${path}/memory`, '{"enabled":true,"en\\u0061bled":false}'],
      [`${path}/applications/bot`, '{"ceilings":{"calls":1,"calls":2}}'],
      ['/provision/catalog', '[{"a":1,"a":1}]'],
    ] as const) {
      const answer = await gateway.admin('PUT', url, body);
      expect([url, answer.status, await answer.text()]).toEqual([url, 400, expect.stringMatching(/^duplicate key: /)]);
    }
  });

  it('erases the subjects . and .. only if the query names them exactly', async () => {
    for (const text of ['undefined', '.']) await saveItem(gateway, { text, subject: text });
    const erase = (url: string) => sendRaw('DELETE', url, bearer(gateway.key));
    for (const query of ['Subject=.', 'SUBJECT=%2e', 'subject=.&subject=a', 'subject[]=.', 'subject=a', 'subject=', 'x=1&subject=.'])
      expect([query, await erase(`/v1/memory/subjects?${query}`)]).toMatchObject([query, { status: 400 }]);
    expect(await erase('http://gateway.example/v1/memory/subjects?subject=%2E')).toMatchObject({
      status: 200,
      json: { deleted: { memories: 1 } },
    });
    expect(getTexts(await search(gateway, { query: 'undefined', subject: 'undefined' }))).toEqual(['undefined']);
  });

  it('returns 400 bad_request for a provisioning body that is nested too deeply', async () => {
    for (const levels of [100, 200_000]) {
      const nested = `${'['.repeat(levels)}"\\u0041\\ud83d\\ude00"${']'.repeat(levels)}`;
      const answer = await gateway.admin('PUT', '/provision/teams/acme', `{"x":${nested}}`);
      await expectChatError(answer, 400, 'bad_request', 'body: must not be nested more than 100 levels deep');
    }
  });
});
