/** Tests that we reject URLs that only look like the vendor's, and that the key is only sent to the vendor's origin. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, test } from '@jest/globals';
import { standardFormat } from '../../src/core/request-format.ts';
import type { VendorIdentity } from '../../src/vendors/identity/credential.ts';
import { fetchVendorFile, HostNotAllowedError, type MediaProvider } from '../../src/vendors/media.ts';
import { buildVendorHosts, parseVendorAddress, resolveRedirect } from '../../src/vendors/vendor-hosts.ts';
import type { FakeVendor, Responder } from './fake-vendor.ts';
import { withVendor } from './fake-vendor.ts';

const hosts = buildVendorHosts('https://api.vendor.test/v1', ['files.vendor.test', 'cdn.vendor.test:8443']);

describe('URLs of vendors', () => {
  test.each([
    ["the vendor's own host", 'https://api.vendor.test/v1/files/a.png?x=1#y', true],
    ['its default port', 'https://api.vendor.test:443/a', true],
    ['upper case', 'HTTPS://API.Vendor.TEST/a', true],
    ['an escaped letter, which the parser reads as that letter', 'https://%61pi.vendor.test/a', true],
    ['an encoded slash after the host', 'https://api.vendor.test/a%2Fb', true],
    ['an asset host', 'https://files.vendor.test/a', false],
    ['an asset host with its port', 'https://cdn.vendor.test:8443/a', false],
  ])('accepts %s: %s', (_title, text, isProviderOrigin) => {
    expect(parseVendorAddress(text, hosts)).toMatchObject({ isProviderOrigin, url: new URL(text) });
  });

  test.each([
    ['user-info', 'https://api.vendor.test@evil.test/a'],
    ['user-info before the right host', 'https://me:secret@api.vendor.test/a'],
    ['empty user-info', 'https://@api.vendor.test/a'],
    ['empty user and password', 'https://:@api.vendor.test/a'],
    ['another port', 'https://api.vendor.test:8443/a'],
    ['the port of http', 'https://api.vendor.test:80/a'],
    ['another scheme', 'http://api.vendor.test/a'],
    ['ftp', 'ftp://api.vendor.test/a'],
    ['a file', 'file:///etc/passwd'],
    ['data', 'data:image/png;base64,AAAA'],
    ['a script', 'javascript:alert(1)'],
    ['a trailing dot', 'https://api.vendor.test./a'],
    ['a suffix', 'https://api.vendor.test.evil.test/a'],
    ['a prefix', 'https://evilapi.vendor.test/a'],
    ['another host of the domain', 'https://evil.vendor.test/a'],
    ['the parent domain', 'https://vendor.test/a'],
    ['a backslash', 'https://evil.test\\@api.vendor.test/a'],
    ['backslashes instead of slashes', 'https:\\\\api.vendor.test\\a'],
    ['an encoded slash in the host', 'https://api.vendor.test%2F@evil.test/a'],
    ['an encoded slash that ends the host', 'https://evil.test%2fapi.vendor.test/a'],
    ['an encoded null in the host', 'https://api.vendor.test%00.evil.test/a'],
    ['a fragment that hides a host', 'https://evil.test#@api.vendor.test/a'],
    ['a query that hides a host', 'https://evil.test?@api.vendor.test/a'],
    ['one slash', 'https:/api.vendor.test/a'],
    ['no slash', 'https:api.vendor.test/a'],
    ['three slashes', 'https:///api.vendor.test/a'],
    ['no scheme', '//api.vendor.test/a'],
    ['only a path', '/v1/files/a'],
    ['nothing', ''],
    ['no host', 'https://'],
    ['a line break that the parser would drop', 'https://api.vendor\n.test/a'],
    ['a tab', 'https://api.\tvendor.test/a'],
    ['a null', 'https://api.vendor.test/\u0000a'],
    ['a leading space', ' https://api.vendor.test/a'],
    ['a space within', 'https://api.vendor.test/a b'],
    ['an invisible character', 'https://api.ven\u200bdor.test/a'],
    ['a lookalike letter', 'https://api.vend\u043er.test/a'],
    ['IPv4', 'https://127.0.0.1/a'],
    ['IPv6', 'https://[::1]/a'],
    ['IPv4 in IPv6', 'https://[::ffff:127.0.0.1]/a'],
    ['a decimal address', 'https://2130706433/a'],
    ['an octal address', 'https://0177.0.0.1/a'],
    ['localhost', 'https://localhost/a'],
    ['the metadata service', 'http://169.254.169.254/latest'],
    ['an asset host on another port', 'https://files.vendor.test:8443/a'],
    ['an asset host without its port', 'https://cdn.vendor.test/a'],
    ['a subdomain of an asset host', 'https://x.files.vendor.test/a'],
    ['an asset host without https', 'http://files.vendor.test/a'],
    ['too many characters', `https://api.vendor.test/${'a'.repeat(8_200)}`],
  ])('rejects a URL with %s', (_title, text) => {
    expect(parseVendorAddress(text, hosts)).toBeNull();
  });

  test('accepts the IP address of the base URL in other notations', () => {
    const numbers = buildVendorHosts('http://127.0.0.1:8080/v1', []);
    for (const text of ['http://2130706433:8080/a', 'http://0x7f.1:8080/a', 'http://127.1:8080/a'])
      expect(parseVendorAddress(text, numbers)?.url.origin).toBe('http://127.0.0.1:8080');
    for (const text of ['http://127.0.0.1/a', 'http://127.0.0.2:8080/a', 'http://[::1]:8080/a', 'http://localhost:8080/a'])
      expect(parseVendorAddress(text, numbers)).toBeNull();
  });

  test.each([
    ['/b', 'https://api.vendor.test/b'],
    ['b', 'https://api.vendor.test/v1/b'],
    ['?c=1', 'https://api.vendor.test/v1/a?c=1'],
    ['https://files.vendor.test/b', 'https://files.vendor.test/b'],
    ['//evil.test/b', null],
    ['https://evil.test/b', null],
    ['https:evil.test', null],
    ['http://api.vendor.test/b', null],
    ['/\\evil.test/b', null],
    ['\\\\evil.test/b', null],
    ['javascript:alert(1)', null],
    ['/a\tb', null],
  ])('resolves a redirect of a vendor to %j as %j', (location, expected) => {
    expect(resolveRedirect(location, new URL('https://api.vendor.test/v1/a'), hosts)?.url.href ?? null).toBe(expected);
  });
});

const key = 'sk-vendor-0123456789';

function providerAt(url: string, assetHosts: readonly string[] = []): MediaProvider {
  return {
    name: 'v',
    dialect: 'chat',
    baseUrl: `${url}/v1`,
    hosts: buildVendorHosts(`${url}/v1`, assetHosts),
    headers: { authorization: `Bearer ${key}` },
    requests: standardFormat,
    secrets: [key],
    connectTimeoutMs: 1_000,
    firstByteTimeoutMs: 2_000,
    idleTimeoutMs: 2_000,
    imageShape: 'openai',
    imageResponseFormat: true,
    speechShape: 'openai',
    speechMediaType: null,
    speech: { voiceIn: 'path', path: '/', textField: 'text', body: {} },
  };
}

const redirectTo =
  (location: string): Responder =>
  (response) =>
    response.writeHead(302, { location }).end();

const fetchFrom = ({ httpClient }: FakeVendor, provider: MediaProvider, address: string) =>
  fetchVendorFile(httpClient, { provider, address, accept: '*/*', now: () => 0 });

describe('fetching a URL', () => {
  test("sends the key when it follows redirects on the provider's origin", () =>
    withVendor(
      (response, { path }) => (path === '/a' ? response.writeHead(302, { location: '/b' }).end() : response.end('file')),
      async (vendor) => {
        const response = await fetchFrom(vendor, providerAt(vendor.url), `${vendor.url}/a`);
        expect((await response.body.readAll(100)).toString()).toBe('file');
        expect(vendor.received.map(({ path, headers }) => [path, headers.authorization])).toEqual([
          ['/a', `Bearer ${key}`],
          ['/b', `Bearer ${key}`],
        ]);
      },
    ));

  test("doesn't send provider headers to an asset host", () =>
    withVendor(
      (response) => response.end('file'),
      async (assets) => {
        const location = assets.url.replace('http://', '');
        await withVendor(redirectTo(`${assets.url}/f`), async (vendor) => {
          await (await fetchFrom(vendor, providerAt(vendor.url, [location]), `${vendor.url}/a`)).body.readAll(100);
          expect(assets.received.map(({ headers }) => headers)).toEqual([
            expect.not.objectContaining({ authorization: expect.anything() }),
          ]);
          expect(JSON.stringify(assets.received)).not.toContain(key);
        });
      },
    ));

  test("sends cloud credentials only to the provider's origin", () =>
    withVendor(
      (response) => response.end('file'),
      async (assets) => {
        await withVendor(redirectTo(`${assets.url}/f`), async (vendor) => {
          const identity: VendorIdentity = {
            authorize: async (request) => ({ ...request, headers: { ...request.headers, 'x-credential': 'secret-token' } }),
            rejected: () => undefined,
            secrets: () => ['secret-token'],
          };
          const provider = { ...providerAt(vendor.url, [assets.url.replace('http://', '')]), identity };
          await (await fetchFrom(vendor, provider, `${vendor.url}/a`)).body.readAll(100);
          expect(vendor.received.map(({ headers }) => headers['x-credential'])).toEqual(['secret-token']);
          expect(assets.received.map(({ headers }) => headers['x-credential'])).toEqual([undefined]);
        });
      },
    ));

  test("never connects to a host that doesn't belong to the vendor", async () => {
    let connections = 0;
    const listener = createServer((_request, response) => response.end());
    listener.on('connection', () => {
      connections += 1;
    });
    await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
    const { port } = listener.address() as AddressInfo;
    const elsewhere = [`http://127.0.0.1:${port}/x`, `//127.0.0.1:${port}/x`, `http://localhost:${port}/x`, `http://2130706433:${port}/x`];
    for (const location of elsewhere) {
      await withVendor(redirectTo(location), async (vendor) => {
        const provider = providerAt(vendor.url);
        for (const address of [`${vendor.url}/a`, location, `http://a@127.0.0.1:${port}/`])
          await expect(fetchFrom(vendor, provider, address)).rejects.toMatchObject({
            kind: 'unreadable',
            cause: expect.any(HostNotAllowedError),
          });
      });
    }
    expect(connections).toBe(0);
    await new Promise((resolve) => listener.close(resolve));
  });

  test('stops a redirect loop', () =>
    withVendor(redirectTo('/a'), async (vendor) => {
      await expect(fetchFrom(vendor, providerAt(vendor.url), `${vendor.url}/a`)).rejects.toMatchObject({ kind: 'unreadable' });
      expect(vendor.received).toHaveLength(6);
    }));

  test("reports the vendor's message in an error, truncated and without the key", () =>
    withVendor(
      (response) => response.writeHead(403).end(`{"error":"no right for ${key}"}${'x'.repeat(100_000)}`),
      async (vendor) => {
        const fault = await fetchFrom(vendor, providerAt(vendor.url), `${vendor.url}/a`).catch((error: unknown) => error);
        expect(fault).toMatchObject({ kind: 'status', status: 403, message: expect.stringContaining('no right for [key]') });
        expect(String((fault as Error).message).length).toBeLessThan(2_100);
      },
    ));
});
