/** Tests the limit for the memory that request bodies use (see docs/decisions/2026-11-22-body-memory.md). */
import { connect } from 'node:net';
import { expect, test } from '@jest/globals';
import { eventually, jsonOf, shareGateway, withGateway } from '../support/gateway.ts';

const mebibyte = 1024 * 1024;
const shared = shareGateway({ database: 'any', env: { GATEWAY_BODY_MEMORY_MIB: '32' } });

/** Shows the reason if the status is not 200. */
async function expectServed(response: Response): Promise<void> {
  expect([response.status, await response.text()]).toEqual([200, expect.any(String)]);
}

test('returns 503 for large bodies while the memory for request bodies is used up', async () => {
  const { call, vendor, url, key } = shared();
  const large = 'x'.repeat(17 * mebibyte);
  const embed = (model: string, input = large) => call('/v1/embeddings', { model, input });
  const form = new FormData();
  form.set('file', new Blob([large]), 'a.wav');
  form.set('model', 'one/echo');
  const requests: (() => Promise<Response>)[] = [
    () => embed('one/echo'),
    () => call('/v1/messages', { model: 'three/echo', max_tokens: 9, messages: [{ role: 'user', content: large }] }),
    () => call('/v1/messages/count_tokens', { model: 'three/echo', messages: [{ role: 'user', content: large }] }),
    () => call('/v1/memory/search', { query: large }),
    // The gateway holds this body as a whole, because its length is not declared or the model comes last.
    () => fetch(`${url}/v1/audio/transcriptions`, { method: 'POST', headers: { authorization: `Bearer ${key}` }, body: form }),
  ];
  const held = embed('one/held');
  await eventually(async () => expect(vendor.requests().length).toBe(1));
  for (const request of requests) {
    const response = await request();
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, '5']);
    expect(await response.text()).toContain('too many large requests are being served; try again in a moment');
  }
  await expectServed(await embed('one/echo', 'small'));
  await expectServed(await call('/readyz'));
  const more = Array.from({ length: 15 }, (_, index) => embed('one/held', 'x'.repeat(mebibyte - (index === 0 ? 4_096 : 128))));
  await eventually(async () => expect(vendor.requests().length).toBe(17));
  expect(await jsonOf(call('/readyz'))).toMatchObject({
    status: 'not_ready',
    reasons: ['too many large requests are being served'],
  });
  expect((await call('/healthz')).status).toBe(200);
  vendor.release();
  for (const response of await Promise.all([held, ...more])) await expectServed(response);
  await expectServed(await call('/readyz'));
  await expectServed(await embed('one/echo'));
});

test('counts how much memory an upload in tiny pieces takes in addition to its bytes', async () => {
  const { url, key, admin } = shared();
  const { port, hostname } = new URL(url);
  const socket = connect(Number(port), hostname);
  try {
    let sent = '--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n';
    const headers = `host: x\r\nauthorization: Bearer ${key}\r\ncontent-type: multipart/form-data; boundary=b\r\ncontent-length: 10000`;
    socket.write(`POST /v1/audio/transcriptions HTTP/1.1\r\n${headers}\r\n\r\n${sent}`);
    await eventually(async () => {
      socket.write('x');
      sent += 'x';
      const metrics = await (await admin('GET', '/metrics')).text();
      expect(Number(/^gateway_body_memory_bytes (\d+)$/m.exec(metrics)?.[1])).toBeGreaterThan(sent.length + 1_000);
    });
  } finally {
    socket.destroy();
  }
  await eventually(async () => expect(await (await admin('GET', '/metrics')).text()).toMatch(/^gateway_body_memory_bytes 0$/m));
});

test('counts large bodies per project, even if they come from different keys', () =>
  withGateway({ database: 'any', env: { GATEWAY_BODY_MEMORY_MIB: '40' } }, async ({ admin, key, project, url, vendor, withProject }) => {
    const { key: otherKey } = await withProject('other');
    const { key: secondKey } = await jsonOf<{ key: string }>(admin('POST', `/provision/teams/${project}/keys`, { name: 'second' }));
    const embed = (withKey: string, model: string, mebibytes: number) =>
      fetch(`${url}/v1/embeddings`, {
        method: 'POST',
        headers: { authorization: `Bearer ${withKey}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model, input: 'x'.repeat(mebibytes * mebibyte) }),
      });
    const held = embed(key, 'one/held', 31);
    await eventually(async () => expect(vendor.requests().length).toBe(1));
    expect((await embed(secondKey, 'one/echo', 4)).status).toBe(503);
    await expectServed(await embed(otherKey, 'one/echo', 4));
    vendor.release();
    await expectServed(await held);
    await expectServed(await embed(secondKey, 'one/echo', 4));
  }));
