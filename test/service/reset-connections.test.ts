/** Tests a vendor that closes a keep-alive connection while the gateway is sending the next request. */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { callsOf, withGateway } from '../support/gateway.ts';
import { paths } from './dialects-gateway.ts';

const body =
  '{"choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":1}}';
// The client keeps the connection for 30 seconds, or longer if the vendor says so. A slow machine may need more to
// prepare the large prompt.
const answer = [
  'HTTP/1.1 200 OK',
  'content-type: application/json',
  `content-length: ${body.length}`,
  'keep-alive: timeout=600',
  '',
  body,
].join('\r\n');

/**
 * When the vendor resets a connection that has already served a request: at the first bytes of the next one, or once it
 * has received all of it.
 */
let resetsAt: 'start' | 'end' = 'start';
let resets = 0;
const vendor = createServer((socket: Socket) => {
  let served = 0;
  let head = '';
  /** How many bytes of the request haven't arrived yet. Null until its headers have. */
  let missing: number | null = null;
  socket.on('error', () => undefined);
  socket.on('data', (chunk: Buffer) => {
    if (missing === null) {
      head += chunk.toString('latin1');
      const [headers, length] = /^.*content-length: (\d+).*?\r\n\r\n/is.exec(head) ?? [];
      if (headers !== undefined) missing = Number(length) - (head.length - headers.length);
    } else missing -= chunk.length;
    const isWhole = missing === 0;
    if (served === 1 && (resetsAt === 'start' || isWhole)) {
      resets += 1;
      socket.resetAndDestroy();
    } else if (isWhole) {
      served += 1;
      [head, missing] = ['', null];
      socket.write(answer);
    }
  });
});

beforeAll(async () => {
  await once(vendor.listen(0, '127.0.0.1'), 'listening');
});
afterAll(async () => {
  await once(vendor.close(), 'close');
});

it('resends a request on a new connection if the old one was reset before the request was fully sent', () =>
  withGateway(
    {
      database: 'any',
      yaml: () => `
providers:
  raw: { base_url: "http://127.0.0.1:${(vendor.address() as AddressInfo).port}/v1", api_key: key, dialect: chat }
`,
    },
    async (gateway) => {
      // The second prompt is larger than what the operating systems buffer.
      const ask = async (size: number): Promise<number> => {
        const messages = [{ role: 'user', content: 'x'.repeat(size) }];
        return (await gateway.call(paths.chat, { model: 'raw/any', messages })).status;
      };
      expect([await ask(10), await ask(20 * 1024 * 1024), resets]).toEqual([200, 200, 1]);
      resetsAt = 'end';
      // The vendor may have processed this one, so it isn't repeated.
      expect([await ask(10), resets]).toEqual([503, 2]);
      expect(await callsOf(gateway)).toMatchObject([
        { outcome: 'failed', attempts: [{ n: 1, outcome: 'failed', cost: 0 }] },
        {
          outcome: 'ok',
          attempts: [
            { n: 1, outcome: 'failed', cost: 0 },
            { n: 2, outcome: 'ok' },
          ],
        },
        { outcome: 'ok', attempts: [{ n: 1, outcome: 'ok' }] },
      ]);
    },
  ));
