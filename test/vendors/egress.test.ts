import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { generate } from 'selfsigned';
import type { ProviderConfig } from '../../src/config/config.ts';
import { loadConfig } from '../../src/config/load.ts';
import { VendorError } from '../../src/core/errors.ts';
import { createVendorHttpClient, type VendorHttpClient } from '../../src/vendors/http-client.ts';

const folder = mkdtempSync(join(tmpdir(), 'egress-'));
const caFile = join(folder, 'ca.pem');
const sockets = new Set<Socket>();

let httpClient: VendorHttpClient;
let plain: Server;
let secure: ReturnType<typeof createTlsServer>;
let proxy: Server;
/** What the proxy was asked, and how it responds. */
const asked: IncomingMessage[] = [];
let refuse: ((socket: Socket) => void) | null = null;

const portOf = (server: Server | ReturnType<typeof createTlsServer>): number => (server.address() as AddressInfo).port;

async function listen(server: Server | ReturnType<typeof createTlsServer>): Promise<void> {
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
}

beforeAll(async () => {
  const pems = await generate([{ name: 'commonName', value: 'localhost' }], { keySize: 2048 });
  writeFileSync(caFile, pems.cert);
  plain = createServer((_request, response) => response.end('plain'));
  secure = createTlsServer({ key: pems.private, cert: pems.cert }, (_request, response) => response.end('secure'));
  proxy = createServer();
  proxy.on('connect', (request, socket: Socket) => {
    asked.push(request);
    socket.on('error', () => undefined);
    if (refuse) return refuse(socket);
    const [, port = ''] = /:(\d+)$/.exec(request.url ?? '') ?? [];
    const upstream = connect(Number(port), '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 Connection established\r\nvia: 1.1 test\r\n\r\n');
      upstream.pipe(socket).pipe(upstream);
    });
    upstream.on('error', () => socket.destroy());
    socket.on('error', () => upstream.destroy());
  });
  await Promise.all([plain, secure, proxy].map(listen));
  httpClient = createVendorHttpClient();
});
afterAll(async () => {
  await httpClient.close();
  for (const socket of sockets) socket.destroy();
  await Promise.all([plain, secure, proxy].map((server) => new Promise((resolve) => server.close(resolve))));
  rmSync(folder, { recursive: true });
});
beforeEach(() => {
  asked.splice(0);
  refuse = null;
});

function providerOf(row: object, env: Record<string, string> = {}): ProviderConfig {
  const fileText = JSON.stringify({ providers: { p: { dialect: 'chat', base_url: 'https://vendor.example.com/v1', ...row } } });
  const provider = loadConfig({ env, fileText, fileName: 'gateway.yaml' }).providers.p;
  if (!provider) throw new Error('there is no provider');
  return provider;
}

/** Requests an address as the provider's calls would, and returns the body or the message for operators. */
async function request(address: string, { egress }: Pick<ProviderConfig, 'egress'>): Promise<string> {
  const timeouts = { connectTimeoutMs: 2_000, firstByteTimeoutMs: 5_000, idleTimeoutMs: 5_000 };
  try {
    const { body } = await httpClient.send({ url: new URL(address), method: 'GET', headers: {}, body: null, egress, ...timeouts });
    return (await body.readAll(1_000)).toString();
  } catch (error) {
    if (error instanceof VendorError) return `${error.kind}: ${error.detail ?? error.message}`;
    throw error;
  }
}

const proxyUrl = (): string => `http://127.0.0.1:${portOf(proxy)}`;
const secureUrl = (): string => `https://localhost:${portOf(secure)}/`;

describe('connecting through a proxy', () => {
  test('opens a CONNECT tunnel through the proxy for TLS', async () => {
    const provider = providerOf({ proxy: proxyUrl().replace('//', '//user:p%40ss@'), ca_file: caFile });
    expect(await request(secureUrl(), provider)).toBe('secure');
    // The connection is free again at the end of this turn of the event loop.
    await setImmediate();
    expect(await request(secureUrl(), provider)).toBe('secure');
    expect(asked.map(({ url, headers }) => [url, headers['proxy-authorization']])).toEqual([
      [`localhost:${portOf(secure)}`, `Basic ${Buffer.from('user:p@ss').toString('base64')}`],
    ]);
  });

  test('sends IPv6 addresses to the proxy in brackets', async () => {
    expect(await request(`http://[::1]:${portOf(plain)}/`, providerOf({ proxy: proxyUrl() }))).toBe('plain');
    expect(asked.map(({ url }) => url)).toEqual([`[::1]:${portOf(plain)}`]);
  });

  test('also sends plain HTTP through the proxy', async () => {
    expect(await request(`http://localhost:${portOf(plain)}/`, providerOf({ proxy: proxyUrl() }))).toBe('plain');
    expect(asked).toHaveLength(1);
  });

  test.each<[string, (socket: Socket) => void, string]>([
    [
      'rejects its credentials',
      (socket) => socket.end('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n'),
      'connect: the proxy rejected the user name or password (407)',
    ],
    [
      'refuses the host',
      (socket) => socket.end('HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno'),
      'connect: the proxy refused the connection (403)',
    ],
    [
      'responds with something else',
      (socket) => socket.end('SSH-2.0\r\n\r\n'),
      'connect: cannot connect through the proxy: the connection was closed before the response began',
    ],
    [
      'closes the connection',
      (socket) => socket.end(),
      'connect: cannot connect through the proxy: the connection was closed before the response began',
    ],
    [
      'never ends its response',
      (socket) => socket.write(`HTTP/1.1 200 OK\r\nx: ${'x'.repeat(100_000)}`),
      'connect: cannot connect through the proxy: the connection failed',
    ],
    ['does not respond', () => undefined, 'connect: cannot connect through the proxy: it timed out'],
  ])('explains why the connection failed if the proxy %s', async (_name, respond, message) => {
    refuse = respond;
    expect(await request(secureUrl(), providerOf({ proxy: proxyUrl(), ca_file: caFile }))).toBe(message);
  });

  test("explains that the connection failed because the proxy can't be reached", async () => {
    expect(await request(secureUrl(), providerOf({ proxy: 'http://127.0.0.1:9' }))).toBe(
      'connect: cannot connect through the proxy: the connection was refused',
    );
  });
});

describe('certificates of a provider', () => {
  test("trusts the certificates in a provider's ca_file only for this provider", async () => {
    expect(await request(secureUrl(), providerOf({ ca_file: caFile }))).toBe('secure');
    expect(await request(secureUrl(), providerOf({}))).toBe('connect: the TLS certificate of the host was rejected');
  });

  test.each([
    [join(folder, 'none.pem'), 'no such file'],
    [import.meta.filename, 'it contains no certificate in PEM format'],
  ])('rejects %s as a ca_file when the configuration is loaded', (file, message) => {
    expect(() => providerOf({ ca_file: file })).toThrow(message);
  });
});

describe('HTTPS_PROXY and NO_PROXY', () => {
  const env = { HTTPS_PROXY: 'http://proxy.test:3128', HTTP_PROXY: 'http://plain.test:3128' };
  const proxyOf = (address: string, more: Record<string, string> = {}, row: object = {}): string | null =>
    providerOf({ base_url: address, ...row }, { ...env, ...more }).egress?.proxy ?? null;

  test.each([
    ['https://api.example.com/v1', '', env.HTTPS_PROXY],
    ['http://api.example.com/v1', '', env.HTTP_PROXY],
    ['http://localhost:8000/v1', '', null],
    ['http://127.0.0.1:8000/v1', '', null],
    ['http://[::1]:8000/v1', '', null],
    ['https://127.example.com/v1', '', env.HTTPS_PROXY],
    ['https://api.example.com/v1', '*', null],
    ['https://api.example.com/v1', 'example.com', null],
    ['https://api.example.com/v1', 'other.test, .example.com', null],
    ['https://api.example.com/v1', '*.example.com', null],
    ['https://notexample.com/v1', 'example.com', env.HTTPS_PROXY],
    ['https://api.example.com/v1', 'api.example.com:443', null],
    ['https://api.example.com/v1', 'api.example.com:8443', env.HTTPS_PROXY],
    ['https://10.1.2.3/v1', '10.0.0.0/8', null],
    ['https://11.1.2.3/v1', '10.0.0.0/8', env.HTTPS_PROXY],
    ['https://[fd00::1]/v1', 'fd00::/8', null],
    ['https://[fd00::1]/v1', '[fd00::]/16', null],
    ['https://[fd00::1:2]/v1', 'fd00::1:2', null],
    ['https://[fd00::1]/v1', 'fd00::1:2', env.HTTPS_PROXY],
    ['https://[fd00::1]/v1', 'fd00:0:0:0:0:0:0:1', null],
    ['https://[fd00::1]/v1', '[fd00:0:0::1]:443', null],
    ['https://[fd00::1]:8443/v1', '[fd00::1]:443', env.HTTPS_PROXY],
    ['https://10.1.2.3/v1', '10.1.2.3:443', null],
    ['https://10.1.2.3/v1', '10.1.2.3:80', env.HTTPS_PROXY],
  ])('finds the proxy for %s with NO_PROXY=%s', (address, exceptions, expected) => {
    expect(proxyOf(address, { NO_PROXY: exceptions })).toBe(expected);
  });

  test('accepts proxy variables in lower case', () => {
    const lower = { HTTPS_PROXY: '', https_proxy: 'http://lower.test' };
    expect(proxyOf('https://api.example.com/v1', lower)).toBe('http://lower.test');
    expect(proxyOf('https://api.example.com/v1', {}, { proxy: 'none' })).toBeNull();
    expect(proxyOf('https://api.example.com/v1', {}, { proxy: 'http://own.test' })).toBe('http://own.test');
  });

  test('uses http if the proxy URL has no scheme', () => {
    expect(proxyOf('https://api.example.com/v1', { HTTPS_PROXY: 'proxy.corp:3128' })).toBe('http://proxy.corp:3128');
    expect(proxyOf('https://api.example.com/v1', {}, { proxy: 'me:secret@proxy.corp' })).toBe('http://me:secret@proxy.corp');
  });

  test.each(['10.0.0.0/', '10.0.0.0/-1', '10.0.0.0/1.5', '10.0.0.0/33', 'fd00::/129'])('rejects %s as a network in NO_PROXY', (network) => {
    expect(() => proxyOf('https://api.example.com/v1', { NO_PROXY: network })).toThrow(`NO_PROXY: ${network} is not a network`);
  });

  test("rejects proxy settings that aren't addresses", () => {
    expect(() => proxyOf('https://api.example.com/v1', { HTTPS_PROXY: 'socks5://proxy' })).toThrow('HTTPS_PROXY: must be an address');
    expect(() => proxyOf('https://api.example.com/v1', {}, { proxy: 'http://' })).toThrow('proxy: must be an address');
    expect(() => proxyOf('https://api.example.com/v1', {}, { proxy: 'http://u:p%ZZ@proxy' })).toThrow('proxy: must be an address');
  });
});
