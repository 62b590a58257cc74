/**
 * Tests what callers receive on the wire when a stream breaks off. They get everything that was delivered, but no
 * regular end.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { describe, expect, it } from '@jest/globals';
import type { TestGateway } from '../support/gateway.ts';
import { callsOf, shareGateway } from '../support/gateway.ts';
import { readUntilCut } from '../support/read-until-cut.ts';
import { openaiOf, paths } from './dialects-gateway.ts';
import { projectLender } from './inference-routes.ts';

const lent = shareGateway({
  database: 'any',
  yaml: (vendorUrl) => `
providers:
  one: { base_url: ${vendorUrl}/v1, api_key: key-one, dialect: chat }
  three: { base_url: ${vendorUrl}/v1, api_key: key-three, dialect: messages }
  native: { base_url: ${vendorUrl}/v1, api_key: key-native, dialect: chat, serves: [responses] }
`,
});
const lend = projectLender(lent, 'cut');

function toBytes({ key }: TestGateway, model: string, version = '1.1', stream = true): string {
  const body = JSON.stringify({ model, stream, messages: [{ role: 'user', content: 'hi' }] });
  const head = [`POST ${paths.chat} HTTP/${version}`, 'host: gateway.test', `authorization: Bearer ${key}`];
  return [...head, 'content-type: application/json', `content-length: ${body.length}`, '', body].join('\r\n');
}

interface Received {
  readonly text: string;
  /** Whether the peer ended the connection or reset it. */
  readonly end: 'end' | 'reset';
}

function open({ url }: TestGateway): { socket: Socket; received: Promise<Received> } {
  const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', allowHalfOpen: true });
  const pieces: Buffer[] = [];
  socket.on('data', (piece: Buffer) => pieces.push(piece));
  const { promise: received, resolve } = Promise.withResolvers<Received>();
  const finish = (end: Received['end']): void => resolve({ text: Buffer.concat(pieces).toString(), end });
  socket.on('end', () => finish('end')).on('error', () => finish('reset'));
  return { socket, received };
}

const broken = 'one/long-500+break-after-300';
const deltasIn = (text: string): number => text.match(/"content":"[^"]/g)?.length ?? 0;

/** Expects 300 deltas in chunks without a final chunk. */
function expectCut(text: string): void {
  expect(deltasIn(text)).toBe(300);
  expect(text).toMatch(/transfer-encoding: chunked/i);
  expect(text).toMatch(/\n\n\r\n$/);
  expect(text).not.toMatch(/\r\n0\r\n\r\n|\[DONE\]/);
}

describe('a chat stream that the vendor interrupts', () => {
  it.each([
    ['on a keep-alive connection', false],
    ['on a half-closed connection', true],
  ])('ends a broken chat stream without a final chunk %s', async (_who, halfCloses) => {
    const gateway = await lend();
    const { socket, received } = open(gateway);
    socket.write(toBytes(gateway, broken));
    if (halfCloses) socket.end();
    const { text, end } = await received;
    expect(end).toBe('end');
    expectCut(text);
    // The service closes its side once we have closed ours.
    socket.end();
    await once(socket, 'close');
    expect(await callsOf(gateway)).toMatchObject([{ outcome: 'interrupted', code: 'upstream_failed' }]);
  });

  it('completes earlier pipelined responses before a broken stream closes the connection', async () => {
    const gateway = await lend();
    const { socket, received } = open(gateway);
    socket.write(toBytes(gateway, 'one/slow-300+echo', '1.1', false) + toBytes(gateway, broken));
    const { text, end } = await received;
    socket.destroy();
    expect(end).toBe('end');
    const second = text.lastIndexOf('HTTP/1.1 200');
    expect(text.slice(0, second)).toContain('You said: hi');
    expectCut(text.slice(second));
  });

  it("doesn't execute requests pipelined after a broken stream", async () => {
    const gateway = await lend();
    const { socket, received } = open(gateway);
    socket.write(`${toBytes(gateway, broken)}GET /healthz HTTP/1.1\r\nhost: gateway.test\r\n\r\n`);
    const { text, end } = await received;
    // A request that arrives now must not reset the connection, and we don't execute it.
    socket.end(toBytes(gateway, 'one/echo'));
    await once(socket, 'close');
    expect(end).toBe('end');
    expectCut(text);
    expect(await callsOf(gateway)).toHaveLength(1);
  });

  it('resets an HTTP/1.0 connection when a stream breaks', async () => {
    const gateway = await lend();
    const { socket, received } = open(gateway);
    socket.write(toBytes(gateway, broken, '1.0'));
    const { text, end } = await received;
    expect([end, deltasIn(text)]).toEqual(['reset', 300]);
  });
});

describe('a responses stream that the vendor interrupts', () => {
  const model = 'native/long-20+break-after-3';

  it('ends a broken responses stream with an error event', async () => {
    const gateway = await lend();
    const { text, isCut } = await readUntilCut(await gateway.call('/v1/responses', { model, input: 'hi', stream: true }));
    const numbers = [...text.matchAll(/"sequence_number":(\d+)/g)].map(([, number]) => Number(number));
    expect([isCut, numbers]).toEqual([false, numbers.map((_, index) => index)]);
    const problem = { code: 'upstream_failed', message: 'the response ended early', param: null };
    const [name, data = ''] = text.trimEnd().split('\n\n').at(-1)?.split('\n') ?? [];
    expect([name, JSON.parse(data.replace('data: ', ''))]).toEqual([
      'event: error',
      { type: 'error', ...problem, sequence_number: numbers.length - 1, error: { type: 'upstream_failed', ...problem } },
    ]);
  });

  it('makes the openai SDK throw after yielding the delivered text', async () => {
    const stream = await openaiOf(await lend()).responses.create({ model, input: 'hi', stream: true });
    let text = '';
    const readAll = async (): Promise<void> => {
      for await (const event of stream) if (event.type === 'response.output_text.delta') text += event.delta;
    };
    await expect(readAll()).rejects.toThrow('the response ended early');
    expect(text).toBe('the quick brown ');
  });
});
