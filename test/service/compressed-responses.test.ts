/** Tests a vendor that compresses responses although the gateway asks for `identity`. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { callsOf, withGateway } from '../support/gateway.ts';
import { type LocalServer, startLocalServer } from '../support/local-server.ts';
import { paths } from './dialects-gateway.ts';

const plain =
  '{"id":"c1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":1}}';
const delta = 'data: {"id":"c1","choices":[{"index":0,"delta":{"content":"Hello"}}]}\n\n';
const end = 'data: {"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n';
const error = '{"error":{"message":"messages: too many","type":"invalid_request_error","param":null,"code":null}}';

async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const { model, stream } = JSON.parse(Buffer.concat(chunks).toString()) as { model: string; stream?: boolean };
  const [status, type, body] =
    model === 'refuses'
      ? [400, 'application/json', error]
      : stream
        ? [200, 'text/event-stream', delta + end]
        : [200, 'application/json', plain];
  response.writeHead(status, { 'content-type': type, 'content-encoding': 'gzip' }).end(gzipSync(body));
}

let vendor: LocalServer;
beforeAll(async () => {
  vendor = await startLocalServer((request, response) => void respond(request, response));
});
afterAll(() => vendor.close());

it("decompresses a vendor's response and drops the content-encoding header", () =>
  withGateway(
    { database: 'any', yaml: () => `providers:\n  zipped: { base_url: ${vendor.url}/v1, api_key: key, dialect: chat }\n` },
    async (gateway) => {
      const ask = (model: string, stream: boolean): Promise<Response> =>
        gateway.call(paths.chat, { model, stream, stream_options: { include_usage: true }, messages: [{ role: 'user', content: 'hi' }] });
      for (const [model, stream, expected] of [
        ['zipped/any', false, [200, plain]],
        ['zipped/any', true, [200, delta + end]],
        ['zipped/refuses', false, [400, expect.stringContaining('messages: too many')]],
      ] as const) {
        const response = await ask(model, stream);
        expect([response.status, await response.text()]).toEqual(expected);
        expect(response.headers.get('content-encoding')).toBeNull();
      }
      expect((await callsOf(gateway)).map(({ outcome }) => outcome)).toEqual(['refused', 'ok', 'ok']);
    },
  ));
