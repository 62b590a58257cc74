/** Tests the embedder's HTTP server without a model. */
import { once } from 'node:events';
import type { Server } from 'node:http';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { localModels } from '../../src/core/local-model.ts';
import type { FailureCause } from '../../src/embedder/messages.ts';
import type { Embed } from '../../src/embedder/model.ts';
import { createEmbeddingQueue } from '../../src/embedder/queue.ts';
import { RuntimeError } from '../../src/embedder/runtime-error.ts';
import { createEmbeddingServer } from '../../src/embedder/server.ts';

const token = 'token-of-the-test';
const limitBytes = 8 * 1024 * 1024;
let server: Server;
let url = '';
const causes: FailureCause[] = [];

beforeAll(async () => {
  const embed: Embed = async (text) => {
    if (text === 'crash') throw new RuntimeError('out of memory');
    if (text === 'bug\n    at secret') throw new TypeError(`cannot read ${text}`);
    // With an invalid vector, the server can't create the response.
    return { values: text === 'no vector' ? (null as unknown as Float32Array) : new Float32Array(384).fill(1), tokens: 1 };
  };
  server = createEmbeddingServer({
    ...{ models: new Map(localModels.map((model) => [model, embed])), queue: createEmbeddingQueue(), token },
    onFailure: (cause) => causes.push(cause),
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}/v1/embeddings`;
});
afterAll(() => new Promise((resolve) => server.close(resolve)));

/** Sends what the gateway sends for a body of `bytes` whose model is `asked`. */
async function send(model: string, asked: string, bytes: number, isChunked: boolean): Promise<{ status: number; text: string }> {
  const length = bytes - JSON.stringify({ model: asked, input: '' }).length;
  const body = JSON.stringify({ model, input: 'x'.repeat(length) });
  const headers = { authorization: `Bearer ${token}` };
  const content = isChunked ? new Blob([body]).stream() : body;
  const response = await fetch(url, { method: 'POST', headers, body: content, duplex: 'half' });
  return { status: response.status, text: await response.text() };
}

test.each(
  localModels.flatMap((model) =>
    [model, `local/${model}`, 'embed', 'x'].flatMap((asked) => [false, true].map((chunked) => [model, asked, chunked] as const)),
  ),
)('embeds up to 8 MiB with %s if the client requests %s (chunked: %s)', async (model, asked, isChunked) => {
  expect((await send(model, asked, limitBytes, isChunked)).status).toBe(200);
  const refused = await send(model, asked, limitBytes + 64, isChunked);
  expect(refused.status).toBe(413);
  expect(refused.text).toContain('the body is larger than 8388608 bytes');
});

test.each([
  ['crash', 'the model failed to compute the embeddings', /^RuntimeError: out of memory\n {4}at /],
  ['bug\n    at secret', 'the model failed to compute the embeddings', /^TypeError\n {4}at /],
  ['no vector', 'the local embedder failed', /^TypeError\n {4}at /],
])('reports what failed and why, but not the text that was embedded (%j)', async (input, message, stack) => {
  const headers = { authorization: `Bearer ${token}` };
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify({ model: localModels[0], input }) });
  expect(response.status).toBe(500);
  const advice = 'try again, and if that fails as well, look for the cause in the log of the gateway';
  expect(await response.json()).toMatchObject({ error: { message: `${message}; ${advice}`, type: 'server_error' } });
  const reported = causes.splice(0);
  expect(reported).toEqual([{ name: expect.any(String), stack: expect.stringMatching(stack) }]);
  expect(JSON.stringify(reported)).not.toContain('secret');
});
