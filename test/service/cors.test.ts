/**
 * Tests web pages that call the gateway, with preflight requests, and with OpenAI's SDK in a real browser (see
 * docs/api/reference.md#browsers).
 */
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { loadConfig } from '../../src/config/load.ts';
import { sharedChromium } from '../support/chromium.ts';
import { defaultYaml, shareGateway, type TestGateway } from '../support/gateway.ts';

const app = 'https://app.example.com';
const sdkFolder = dirname(fileURLToPath(import.meta.resolve('openai')));

/** Serves a page and the modules of the SDK. */
const pages = createServer(async (request, response) => {
  if (request.url === '/') response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>page</title>');
  else {
    // The only `.js` file is the half for Node, which bundlers omit for browsers.
    const module = request.url?.endsWith('.mjs') === true ? await readFile(join(sdkFolder, request.url)) : '';
    response.writeHead(200, { 'content-type': 'text/javascript' }).end(module);
  }
});
let pageOrigin = '';

beforeAll(async () => {
  pages.listen(0, '127.0.0.1');
  await once(pages, 'listening');
  pageOrigin = `http://127.0.0.1:${(pages.address() as AddressInfo).port}`;
});
afterAll(() => {
  pages.closeAllConnections();
  pages.close();
});

const yaml = (vendorUrl: string, deadUrl: string): string =>
  `${defaultYaml(vendorUrl, deadUrl)}cors: { origins: [${app}, "${pageOrigin}"] }\n`;
const lent = shareGateway({ database: 'any', yaml });
const chromium = sharedChromium();

const preflight = ({ url }: TestGateway, path: string, origin: string): Promise<Response> =>
  fetch(url + path, {
    method: 'OPTIONS',
    headers: { origin, 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization, x-stainless-os' },
  });

const corsHeadersOf = ({ headers }: Response): string[] => [...headers.keys()].filter((name) => name.startsWith('access-control-'));

describe('a web page of an allowed origin', () => {
  it.each(['/v1/chat/completions', '/v1/models', '/v1/memory/items/x', '/status/peek', '/usage/me'])(
    'answers a CORS preflight request for %s without a key',
    async (path) => {
      const answer = await preflight(lent(), path, app);
      expect([answer.status, await answer.text()]).toEqual([204, '']);
      expect(Object.fromEntries(answer.headers)).toMatchObject({
        'access-control-allow-origin': app,
        'access-control-allow-methods': 'GET, HEAD, POST, PATCH, DELETE',
        'access-control-allow-headers': 'authorization, x-stainless-os',
        'access-control-max-age': '7200',
        vary: 'Origin',
      });
      expect(answer.headers.get('access-control-allow-credentials')).toBeNull();
    },
  );

  it('lets pages of an allowed origin read responses and errors', async () => {
    const gateway = lent();
    const body = { model: 'one/echo', messages: [{ role: 'user', content: 'hi' }] };
    const answers = [
      await gateway.call('/v1/chat/completions', body, { origin: app }),
      await gateway.call('/v1/chat/completions', { ...body, stream: true }, { origin: app }),
      await gateway.call('/v1/chat/completions', '{', { origin: app }),
      await gateway.call('/v1/chat/completions', body, { origin: app, authorization: 'none' }),
      await gateway.call('/v1/embeddings', '{', { origin: app }),
      await gateway.call('/v1/nothing', undefined, { origin: app }),
      await gateway.call('/status/peek', undefined, { origin: app }),
    ];
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 400, 401, 400, 404, 200]);
    for (const answer of answers) {
      await answer.text();
      expect(answer.headers.get('access-control-allow-origin')).toBe(app);
      expect(answer.headers.get('access-control-expose-headers')?.split(', ')).toEqual(
        expect.arrayContaining(['x-request-id', 'request-id', 'retry-after', 'x-gateway-call-id', 'x-gateway-model']),
      );
    }
  });

  it.each(['/console', '/my-key', '/mcp', '/provision/teams', '/openapi.json', '/healthz', '/', '/v1', '/usage/mex'])(
    "doesn't let pages of an allowed origin read %s",
    async (path) => {
      expect(corsHeadersOf(await preflight(lent(), path, app))).toEqual([]);
      expect(corsHeadersOf(await fetch(lent().url + path, { headers: { origin: app }, redirect: 'manual' }))).toEqual([]);
    },
  );
});

describe('a web page of any other origin', () => {
  it.each([
    'https://app.example.com.evil.example',
    'https://app.example.co',
    'http://app.example.com',
    'https://app.example.com:444',
    'null',
  ])('sends no CORS headers to pages of the origin %s', async (origin) => {
    expect(corsHeadersOf(await preflight(lent(), '/v1/models', origin))).toEqual([]);
    expect(corsHeadersOf(await lent().call('/v1/models', undefined, { origin }))).toEqual([]);
  });
});

it('applies changed CORS settings after a reload', async () => {
  const gateway = lent();
  const base = defaultYaml(gateway.vendor.url, gateway.vendor.url);
  const reload = (text: string) => gateway.app.reload(loadConfig({ env: {}, fileText: text, fileName: 'gateway.yaml' }));
  try {
    reload(base);
    expect(corsHeadersOf(await preflight(gateway, '/v1/models', app))).toEqual([]);
    reload(`${base}cors: { origins: ["*"] }\n`);
    const answer = await preflight(gateway, '/v1/models', 'https://any.example');
    expect([answer.status, answer.headers.get('access-control-allow-origin'), answer.headers.get('vary')]).toEqual([204, '*', null]);
  } finally {
    reload(yaml(gateway.vendor.url, gateway.vendor.url));
  }
});

it('works with the openai SDK in a browser', async () => {
  const { url, key } = lent();
  const context = await chromium().newContext();
  try {
    const page = await context.newPage();
    await page.goto(pageOrigin);
    // We pass the script as text, because the page has its own modules.
    const script = `(async () => {
      const { default: OpenAI } = await import('/index.mjs');
      const client = new OpenAI({ baseURL: ${JSON.stringify(`${url}/v1`)}, apiKey: ${JSON.stringify(key)}, dangerouslyAllowBrowser: true, maxRetries: 0 });
      const request = { model: 'one/echo', messages: [{ role: 'user', content: 'hi' }] };
      const plain = await client.chat.completions.create(request).withResponse();
      let text = '';
      for await (const chunk of await client.chat.completions.create({ ...request, stream: true })) text += chunk.choices[0]?.delta.content ?? '';
      const error = await client.chat.completions.create({ ...request, model: 'nosuch' }).catch((caught) => caught);
      return [plain.data.choices[0].message.content, plain.response.headers.get('x-gateway-model'), text, error.status, error.code, error.error.hint];
    })()`;
    const [plain, model, text, ...error] = (await page.evaluate(script)) as string[];
    expect([plain, model, text]).toEqual([expect.stringContaining('hi'), 'one/echo', plain]);
    expect(error).toEqual([400, 'no_route', 'unknown model "nosuch"; GET /v1/models lists the models and tiers that this key may use']);
  } finally {
    await context.close();
  }
});
