/**
 * Tests that callers get their response even if they close their sending side after the request, and that we notice
 * callers that disconnect.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { describe, expect, it } from '@jest/globals';
import type { TestGateway } from '../support/gateway.ts';
import { callsOf, eventually, shareGateway } from '../support/gateway.ts';
import { dialects, paths, providersYaml, vendors } from './dialects-gateway.ts';

const lent = shareGateway({ database: 'any', yaml: providersYaml });
let projects = 0;
const lend = (): Promise<TestGateway> => {
  projects += 1;
  return lent().withProject(`half-${projects}`);
};

/** Sends bytes and closes the sending side. */
function sendBytes({ url }: TestGateway, bytes: string): Socket {
  const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', allowHalfOpen: true });
  return socket.end(bytes);
}

function toBytes({ key }: TestGateway, path: string, body: object, version = '1.1'): string {
  const text = JSON.stringify({ max_tokens: 50, messages: [{ role: 'user', content: 'hi' }], ...body });
  return [
    `POST ${path} HTTP/${version}`,
    'host: gateway.test',
    `authorization: Bearer ${key}`,
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(text)}`,
    '',
    text,
  ].join('\r\n');
}

const send = (gateway: TestGateway, path: string, body: object, version?: string): Socket =>
  sendBytes(gateway, toBytes(gateway, path, body, version));

async function readAll(socket: Socket): Promise<string> {
  const pieces: Buffer[] = [];
  for await (const piece of socket) pieces.push(piece as Buffer);
  return Buffer.concat(pieces).toString('utf8');
}

const timesAsked = ({ vendor }: TestGateway): number => vendor.requests().length;

it('answers pipelined requests in order', async () => {
  const gateway = await lend();
  const call = (name: string, text: string): string =>
    toBytes(gateway, paths.chat, { model: `${vendors.chat}/${name}`, messages: [{ role: 'user', content: text }] });
  const get = (path: string): string => `GET ${path} HTTP/1.1\r\nhost: gateway.test\r\n\r\n`;
  const requests = [call('slow-300+echo', 'first'), get('/healthz'), call('echo', 'second'), get('/nowhere'), call('echo', 'third')];
  const answers = await readAll(sendBytes(gateway, requests.join('')));
  const marks = answers.matchAll(/HTTP\/1\.1 (\d+)|You said: (\w+)/g);
  expect([...marks].map(([, status, text]) => status ?? text)).toEqual(['200', 'first', '200', '200', 'second', '404', '200', 'third']);
});

it("doesn't mix interim responses into the body of an error", async () => {
  const gateway = await lend();
  const slow = toBytes(gateway, paths.chat, { model: `${vendors.chat}/slow-300+echo` });
  const refused = toBytes(gateway, paths.chat, { model: 'no/such', stream: true });
  const answers = await readAll(sendBytes(gateway, slow + refused));
  const [head = '', body = ''] = answers.slice(answers.indexOf('HTTP/1.1 400 ')).split('\r\n\r\n', 2);
  expect(JSON.parse(body)).toMatchObject({ error: { code: 'no_route' } });
  expect(head).toContain(`content-length: ${Buffer.byteLength(body)}`);
});

describe.each(dialects)('half-closed connections on %s', (dialect) => {
  const model = (name: string): string => `${vendors[dialect]}/${name}`;

  it.each([
    ['echo', '1.1'],
    ['slow-300+echo', '1.1'],
    ['slow-300+echo', '1.0'],
  ])('completes the response of %s over HTTP/%s after a half-close and closes the connection', async (name, version) => {
    const gateway = await lend();
    const plain = await readAll(send(gateway, paths[dialect], { model: model(name) }, version));
    expect(plain).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
    expect(plain).toContain('You said: hi');
    const streamed = await readAll(send(gateway, paths[dialect], { model: model(name), stream: true }, version));
    expect(streamed).toMatch(/^(?:HTTP\/1\.1 102 Processing\r\n\r\n)*HTTP\/1\.1 200 OK\r\n/);
    expect(streamed).toMatch(dialect === 'chat' ? /data: \[DONE\]/ : /event: message_stop/);
    expect(await callsOf(gateway)).toMatchObject([{ outcome: 'ok' }, { outcome: 'ok' }]);
  });

  it('completes a stream with long pauses after a half-close', async () => {
    const gateway = await lend();
    const streamed = await readAll(send(gateway, paths[dialect], { model: model('pace-250+long-6'), stream: true }));
    expect(streamed).toMatch(dialect === 'chat' ? /data: \[DONE\]/ : /event: message_stop/);
    expect(streamed).toMatch(/\n\n\r\n3\r\n:\n\n\r\n/);
    expect(await callsOf(gateway)).toMatchObject([{ outcome: 'ok' }]);
  });

  it.each([
    ['before the first chunk', 'hang'],
    ['between two chunks', 'long-20+stall-after-3'],
  ])('notices a disconnect %s even if the caller half-closed the connection first', async (_when, name) => {
    const gateway = await lend();
    const before = timesAsked(gateway);
    const socket = send(gateway, paths[dialect], { model: model(name), stream: true });
    socket.on('error', () => undefined).resume();
    await eventually(async () => expect(timesAsked(gateway)).toBe(before + 1));
    if (name !== 'hang') await once(socket, 'data');
    socket.destroy();
    await eventually(async () => expect(await callsOf(gateway)).toMatchObject([{ outcome: 'client_left' }]));
  });
});

it('rejects a request if the caller half-closes the connection in the middle of it', async () => {
  const { url } = await lend();
  const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', allowHalfOpen: true });
  socket.end('POST /v1/messages HTTP/1.1\r\nhost: gateway.test\r\ncontent-length: 10\r\n\r\n{"a"');
  expect(await readAll(socket)).toMatch(/^HTTP\/1\.1 40[01] /);
});
