/** Tests requests that Node's HTTP parser rejects before the gateway sees them. */
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from '@jest/globals';
import { shareGateway } from '../support/gateway.ts';

const gateway = shareGateway({ database: 'any' });

/** Sends a request and reads until the gateway closes the connection. Fails if the head has the wrong length. */
async function send(request: string): Promise<{ status: number; type: string | undefined; body: string }> {
  const socket = connect(Number(new URL(gateway().url).port), '127.0.0.1');
  socket.write(request, 'latin1');
  const [head = '', body = ''] = (await text(socket)).split('\r\n\r\n');
  expect(head).toContain(`content-length: ${Buffer.byteLength(body)}`);
  expect(head).toContain('connection: close');
  return { status: Number(head.split(' ')[1]), type: /content-type: (.*)/.exec(head)?.[1], body };
}

const toRequest = (path: string, header: string): string => `POST ${path} HTTP/1.1\r\nhost: x\r\n${header}\r\ncontent-length: 2\r\n\r\n{}`;
const message = 'x-gateway-memory-subject must be 1 to 256 characters without control characters, in UTF-8';

describe('a control character in the subject', () => {
  it.each(['\u0000', '\u0001', '\u001f', '\u007f'])('returns 400 invalid_memory_subject for %j', async (character) => {
    const header = `X-Gateway-Memory-Subject: a${character}b`;
    for (const path of ['/v1/chat/completions', '/v1/responses']) {
      const { status, type, body } = await send(toRequest(path, header));
      expect([status, type]).toEqual([400, 'application/json']);
      expect(JSON.parse(body)).toEqual({ error: { type: 'invalid_memory_subject', code: 'invalid_memory_subject', message } });
    }
    const { status, body } = await send(toRequest('/v1/messages', header));
    expect(status).toBe(400);
    expect(JSON.parse(body)).toEqual({ type: 'error', error: { type: 'invalid_request_error', message } });
  });
});

describe('other requests that are not valid HTTP', () => {
  it.each([
    ['a control character in another header', toRequest('/v1/messages', 'x-other: a\u0001b'), 400, 'control character'],
    ['a control character in the URL', toRequest('/v1/memory/subjects/a\u0001b', 'x-other: a'), 400, 'not valid HTTP'],
    ['headers of 20 kB', toRequest('/', `x-other: ${'a'.repeat(20_000)}`), 431, 'too long'],
    ['text', 'hello\r\n\r\n', 400, 'not valid HTTP'],
  ])('says in plain text what is wrong: %s', async (_title, request, status, words) => {
    expect(await send(request)).toEqual({ status, type: 'text/plain; charset=utf-8', body: expect.stringContaining(words) });
  });
});
