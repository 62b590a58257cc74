/**
 * Tests streams that break off behind a proxy. A client of HAProxy or nginx gets what was delivered, and notices that
 * it's incomplete.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { connect as connectHttp2 } from 'node:http2';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { shareGateway } from '../support/gateway.ts';
import { ensureHaproxy, type Haproxy, startHaproxy } from '../support/haproxy.ts';
import { ensureNginx, type Nginx, startNginx } from '../support/nginx.ts';
import { type ReceivedText, readUntilCut } from '../support/read-until-cut.ts';
import { run } from '../support/run.ts';
import { type Dialect, paths, providersYaml } from './dialects-gateway.ts';

const programs = await Promise.all([ensureHaproxy(), ensureNginx()]).catch(() => null);
/** HAProxy 2.6 ends an HTTP/2 stream as if it were complete, while 3.0 resets it. */
const haproxyResets = programs !== null && /version [3-9]\./.test(await run(programs[0], ['-v']));
const lent = shareGateway({ database: 'any', yaml: providersYaml });

(programs === null && process.env.CI !== 'true' ? describe.skip : describe)('a stream behind', () => {
  let folder = '';
  let haproxy: Haproxy;
  let nginx: Nginx;
  beforeAll(async () => {
    const [haproxyProgram, nginxProgram] = programs ?? (await Promise.all([ensureHaproxy(), ensureNginx()]));
    folder = await mkdtemp(join(tmpdir(), 'proxies-'));
    const { url } = lent();
    const { host } = new URL(url);
    const replicas = { 'gateway-1': host, 'gateway-2': host };
    haproxy = await startHaproxy(haproxyProgram, { folder, replicas, env: { GATEWAY_STOP_TIMEOUT_SECONDS: '30' } });
    nginx = await startNginx(nginxProgram, folder, url);
  });
  afterAll(async () => {
    await haproxy?.stop();
    await nginx?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  const asked = (caller: Dialect, model: string) => ({
    headers: { authorization: `Bearer ${lent().key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, max_tokens: 1000, stream: true, messages: [{ role: 'user', content: 'hi' }] }),
    path: paths[caller],
  });
  const askHttp1 = async (url: string, caller: Dialect, model: string): Promise<ReceivedText> => {
    const { path, ...request } = asked(caller, model);
    return readUntilCut(await fetch(url + path, { method: 'POST', ...request }));
  };
  const askHttp2 = async (url: string, caller: Dialect, model: string): Promise<ReceivedText> => {
    const { path, headers, body } = asked(caller, model);
    const session = connectHttp2(url);
    const stream = session.request({ ':method': 'POST', ':path': path, ...headers });
    stream.end(body);
    let text = '';
    stream.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
    });
    const { promise: closed, resolve: close } = Promise.withResolvers<void>();
    stream.on('close', close).on('error', () => undefined);
    await closed;
    session.destroy();
    return { text, isCut: stream.rstCode !== 0 };
  };
  const routes = [
    ['HAProxy, HTTP/1.1', (...call: [Dialect, string]) => askHttp1(haproxy.url, ...call)],
    ['HAProxy, HTTP/2', (...call: [Dialect, string]) => askHttp2(haproxy.http2Url, ...call)],
    ['nginx, HTTP/1.1', (...call: [Dialect, string]) => askHttp1(nginx.url, ...call)],
    ['nginx, HTTP/1.0 to the gateway', (...call: [Dialect, string]) => askHttp1(nginx.defaultUrl, ...call)],
    ['nginx, HTTP/2', (...call: [Dialect, string]) => askHttp2(nginx.http2Url, ...call)],
  ] as const;

  describe.each(routes)('%s', (name, ask) => {
    const seesCut = name !== 'HAProxy, HTTP/2' || haproxyResets;

    it.each([
      ['chat', 'one/long-500+break-after-300'],
      ['chat', 'three/long-500+error-after-300'],
      ['chat', 'one/pace-5+long-40+break-after-20'],
    ] as const)('forwards everything received before a stream was interrupted: %s from %s', async (caller, model) => {
      const { text, isCut } = await ask(caller, model);
      expect([isCut, text.match(/"content":"[^"]/g)?.length]).toEqual([seesCut, model.includes('300') ? 300 : 20]);
      expect(text).not.toContain('[DONE]');
      expect(text.endsWith('\n\n')).toBe(true);
    });

    it('forwards the error event of an interrupted messages stream', async () => {
      const { text, isCut } = await ask('messages', 'one/long-500+break-after-300');
      expect([isCut, text.match(/text_delta/g)?.length]).toEqual([seesCut, 300]);
      expect(text).toMatch(/\n\nevent: error\ndata: .*\n\n$/);
    });

    it('forwards a complete stream through the proxy', async () => {
      const { text, isCut } = await ask('chat', 'one/long-500');
      expect([isCut, text.endsWith('data: [DONE]\n\n')]).toEqual([false, true]);
    });
  });
});
