import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type SampleConsole, startSampleConsole } from './sample-console.ts';
import { hostileText } from './sample-pages.ts';

let site: SampleConsole;
beforeAll(async () => {
  site = await startSampleConsole();
});
afterAll(() => site.close());

const lastAudit = () => site.audit.at(-1);

describe('access to pages', () => {
  test('redirects to the sign-in page if there is no session', async () => {
    const response = await site.get('/console/p/acme/keys?tab=1');
    expect([response.status, response.headers.get('location')]).toEqual([
      303,
      '/console/sign-in?next=%2Fconsole%2Fp%2Facme%2Fkeys%3Ftab%3D1',
    ]);
  });

  test('sends htmx requests to the sign-in page with a 401 after the session has ended', async () => {
    const headers = { 'hx-request': 'true', 'hx-current-url': `${site.url}/console/p/acme/keys` };
    const response = await site.get('/console/p/acme/overview', 'unknown', headers);
    expect([response.status, response.headers.get('hx-redirect')]).toEqual([401, '/console/sign-in?next=%2Fconsole%2Fp%2Facme%2Fkeys']);
  });

  test.each([
    ['/console/p/acme/keys', { member: 200, owner: 200, admin: 200, stranger: 404 }],
    ['/console/p/acme/calls/7', { member: 200, stranger: 404 }],
    ['/console/p/acme/erase', { member: 403, owner: 200, admin: 200, stranger: 404 }],
    ['/console/p/other/keys', { member: 404, admin: 404 }],
    ['/console/admin/people', { member: 404, owner: 404, admin: 200 }],
    ['/console/p/acme/unknown', { owner: 404 }],
  ])('lets only people with access open %s', async (path, statuses) => {
    const got = await Promise.all(Object.keys(statuses).map(async (person) => [person, (await site.get(path, person)).status]));
    expect(Object.fromEntries(got)).toEqual(statuses);
  });

  test("the console's root redirects to the overview of the person's first project", async () => {
    for (const path of ['/console', '/console/', '/console/p/acme'])
      expect((await site.get(path, 'member')).headers.get('location')).toBe('/console/p/acme/overview');
    expect(await (await site.get('/console', 'stranger')).text()).toContain('No project yet');
  });

  test('the navigation lists only pages that the user may open', async () => {
    const linksOf = async (person: string) => {
      const nav = /<nav class="sidebar".*<\/nav>/s.exec(await (await site.get('/console/p/acme/keys', person)).text())?.[0] ?? '';
      return [...nav.matchAll(/href="([^"]+)"/g)].map(([, href]) => href);
    };
    expect(await linksOf('member')).toEqual(['/console/p/acme/overview', '/console/p/acme/keys']);
    expect(await linksOf('admin')).toEqual([
      '/console/p/acme/overview',
      '/console/p/acme/keys',
      '/console/p/acme/erase',
      '/console/admin/people',
    ]);
  });

  test('returns 404 for OPTIONS requests instead of listing the allowed methods', async () => {
    expect((await fetch(`${site.url}/console/p/acme/keys`, { method: 'OPTIONS' })).status).toBe(404);
  });
});

describe('forms', () => {
  const revoke = '/console/p/acme/keys/k1/revoke';
  const fields = { confirmation: 'acme' };

  test.each([
    ['same origin', { 'sec-fetch-site': 'same-origin' }, 200],
    ['typed into the address bar', { 'sec-fetch-site': 'none' }, 200],
    ['another site', { 'sec-fetch-site': 'cross-site' }, 403],
    ['a sibling host', { 'sec-fetch-site': 'same-site' }, 403],
    ['no header but the Origin of another host', { origin: 'http://elsewhere.example' }, 403],
    ['an opaque Origin', { origin: 'null' }, 403],
    ['a proxy that changes the host', { origin: 'https://gateway.example', 'x-forwarded-host': 'gateway.example' }, 200],
    ['neither header', {}, 200],
  ])('checks the origin of a form from %s', async (_name, headers, status) => {
    expect((await site.post(revoke, 'member', { fields, headers: headers as Record<string, string> })).status).toBe(status);
  });

  test('rejects a form without a CSRF token from the same session', async () => {
    expect((await site.post(revoke, 'member', { fields, csrf: '' })).status).toBe(403);
    const token = /name="csrf" value="([^"]+)"/.exec(await (await site.get('/console/p/acme/keys', 'owner')).text())?.[1] ?? '';
    expect((await site.post(revoke, 'member', { fields, csrf: token })).status).toBe(403);
    expect((await site.post(revoke, 'owner', { fields, csrf: token })).status).toBe(200);
  });

  test('requires the CSRF cookie for forms that are sent without a session', async () => {
    const page = await site.get('/console/sign-in');
    const cookie = page.headers.getSetCookie()[0]?.split(';')[0] ?? '';
    const csrf = /name="csrf" value="([^"]+)"/.exec(await page.text())?.[1] ?? '';
    const submit = (headers: Record<string, string>) =>
      fetch(`${site.url}/console/sign-in`, { method: 'POST', headers, body: new URLSearchParams({ csrf }), redirect: 'manual' });
    expect((await submit({})).status).toBe(403);
    const response = await submit({ cookie });
    // A redirect to another site becomes a redirect to the start page.
    expect([response.status, response.headers.get('location')]).toEqual([303, '/console']);
  });

  test('returns 413 for a form larger than 256 KiB', async () => {
    expect((await site.post(revoke, 'member', { fields: { note: 'x'.repeat(262_200) } })).status).toBe(413);
    const headers = { cookie: 'gateway_session=member', 'content-type': 'text/plain' };
    expect((await fetch(site.url + revoke, { method: 'POST', headers, body: 'csrf=1' })).status).toBe(415);
  });

  test.each(['/console/p/acme/keys?tab=%00', '/console/p/acme/calls/%00', '/console/p/acme/calls/%ff'])(
    'returns an error page for the invalid URL %s',
    async (path) => {
      const response = await site.get(path, 'owner');
      const page = await response.text();
      expect([response.status, response.headers.get('content-type')]).toEqual([400, 'text/html; charset=utf-8']);
      expect(page).toContain('<p>The URL is invalid.</p>');
      expect(page).toContain('href="/console/p/acme/keys"');
    },
  );

  test('rejects NUL characters in URLs and form fields', async () => {
    expect((await site.post('/console/p/acme/keys/%00/revoke', 'owner', { fields })).status).toBe(400);
    const response = await site.post('/console/p/acme/keys', 'owner', { fields: { name: 'a\0b' } });
    expect(response.status).toBe(422);
    const page = await response.text();
    expect(page).toContain('Name: must not contain U+0000.');
    expect(page).not.toContain('\0');
    expect(lastAudit()).toMatchObject({ outcome: 'refused', detail: { error: 'bad_request' } });
  });

  test('returns 422 and shows the form again with an error message', async () => {
    const response = await site.post('/console/p/acme/keys', 'owner');
    expect(response.status).toBe(422);
    expect(await response.text()).toMatch(/role="alert">.*Name: must not be empty\..*New key/s);
  });
});

describe('audit log', () => {
  test('writes one audit log entry per action with its outcome', async () => {
    await site.post('/console/p/acme/keys', 'owner', { fields: { name: 'production' } });
    expect(lastAudit()).toEqual({
      action: 'key.issue',
      personId: 'owner',
      projectId: 'p1',
      target: null,
      outcome: 'ok',
      detail: { name: 'production' },
    });
    await site.post('/console/p/acme/keys', 'owner');
    expect(lastAudit()).toMatchObject({ outcome: 'refused', detail: { error: 'bad_request' } });
    expect((await site.post('/console/p/acme/keys', 'owner', { fields: { name: 'fail' } })).status).toBe(500);
    expect(lastAudit()).toMatchObject({ outcome: 'failed' });
    await site.post('/console/p/acme/keys/k1/revoke', 'member');
    expect(lastAudit()).toMatchObject({ action: 'key.revoke', target: 'k1', outcome: 'refused' });
  });

  test('writes no audit log entry for a form that the role or the CSRF token does not allow', async () => {
    const count = site.audit.length;
    expect((await site.post('/console/p/acme/keys', 'member', { fields: { name: 'mine' } })).status).toBe(403);
    expect((await site.post('/console/p/acme/keys', 'owner', { csrf: '' })).status).toBe(403);
    expect(site.audit.length).toBe(count);
  });
});

describe('response headers and bodies', () => {
  test('sets security headers on pages', async () => {
    const { headers } = await site.get('/console/p/acme/keys', 'member');
    expect(Object.fromEntries(headers)).toMatchObject({
      'content-security-policy': expect.stringMatching(/^default-src 'none'; script-src 'self'; style-src 'self';/),
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
      'referrer-policy': 'same-origin',
    });
  });

  test('sets Secure cookies with the __Host- prefix over HTTPS only', async () => {
    const plain = await site.get('/console/sign-in');
    expect(plain.headers.getSetCookie()).toEqual([expect.stringMatching(/^gateway_form=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax$/)]);
    const proxied = await site.get('/console/sign-in', undefined, { 'x-forwarded-proto': 'https' });
    expect(proxied.headers.getSetCookie()).toEqual([expect.stringMatching(/^__Host-gateway_form=.*; Secure$/)]);
    // Over HTTPS we ignore a cookie that any page of the domain could set.
    expect((await site.get('/console/p/acme/keys', 'member', { 'x-forwarded-proto': 'https' })).status).toBe(303);
  });

  test('shows a notice once, and only in the session that caused it', async () => {
    const redirect = await site.post('/console/p/acme/keys', 'owner', { fields: { name: hostileText } });
    const cookie = redirect.headers.getSetCookie()[0]?.split(';')[0] ?? '';
    const shown = await site.get('/console/p/acme/keys', undefined, { cookie: `gateway_session=owner; ${cookie}` });
    expect(await shown.text()).toContain('Issued &quot;&gt;&lt;img src=x');
    expect(shown.headers.getSetCookie().join()).toMatch(/gateway_notice=; .*Max-Age=0/);
    const other = await site.get('/console/p/acme/keys', undefined, { cookie: `gateway_session=member; ${cookie}` });
    expect(await other.text()).not.toContain('Issued');
  });

  test('shows an error page without details and logs the error', async () => {
    const response = await site.get('/console/p/acme/failing', 'member');
    expect(response.status).toBe(500);
    expect(await response.text()).not.toContain('secret detail');
    expect(site.logs.join()).toContain('secret detail');
  });

  test('streams CSV files and escapes spreadsheet formulas', async () => {
    const response = await site.get('/console/p/acme/calls.csv', 'member');
    expect(response.headers.get('content-disposition')).toBe('attachment; filename="calls.csv"');
    const lines = (await response.text()).split('\r\n');
    expect(lines.slice(0, 3)).toEqual(['name,cost', "'=1+1,0", '"row 1, of many",-1']);
    expect(lines.length).toBe(5_002);
  });

  test.each([
    ['gzip, deflate, br', 'gzip'],
    ['br', null],
    ['br;q=0, gzip;q=1.0', 'gzip'],
    ['br, gzip;q=0', null],
    ['*', 'gzip'],
    ['identity', null],
    ['', null],
  ])('compresses pages for accept-encoding %j', async (accepted, encoding) => {
    const plain = await site.get('/console/p/acme/keys', 'member', { 'accept-encoding': 'identity' });
    const response = await site.get('/console/p/acme/keys', 'member', { 'accept-encoding': accepted });
    expect([response.headers.get('content-encoding'), response.headers.get('vary')]).toEqual([encoding, 'accept-encoding']);
    const [whole, sent] = [plain, response].map(({ headers }) => Number(headers.get('content-length')));
    if (encoding !== null) expect(sent).toBeLessThan((whole ?? 0) / 2);
    const withoutTokens = async (page: Response) => (await page.text()).replaceAll(/value="[\w-]{86}"/g, '');
    expect(await withoutTokens(response)).toBe(await withoutTokens(plain));
  });

  test("uses a new CSRF token for each page, so that compression can't reveal it", async () => {
    const tokens = await Promise.all(
      [1, 2].map(async () => /name="csrf" value="([^"]+)"/.exec(await (await site.get('/console/p/acme/keys', 'owner')).text())?.[1] ?? ''),
    );
    expect(new Set(tokens).size).toBe(2);
    for (const csrf of tokens)
      expect((await site.post('/console/p/acme/keys/k1/revoke', 'owner', { fields: { confirmation: 'acme' }, csrf })).status).toBe(200);
    const [first = '', second = ''] = tokens;
    const mixed = first.slice(0, 43) + second.slice(43);
    expect((await site.post('/console/p/acme/keys/k1/revoke', 'owner', { csrf: mixed })).status).toBe(403);
  });

  test('compresses static assets and lets browsers cache them forever', async () => {
    const page = await (await site.get('/console/p/acme/keys', 'member')).text();
    const hrefs = [...page.matchAll(/(?:href|src)="(\/console\/assets\/[^"]+)"/g)].map(([, href]) => href ?? '');
    const sizes = await Promise.all(
      [...new Set(hrefs)].map(async (href) => {
        const response = await fetch(site.url + href, { headers: { 'accept-encoding': 'br' } });
        expect([response.status, response.headers.get('cache-control')]).toEqual([200, 'public, max-age=31536000, immutable']);
        expect(response.headers.get('content-encoding')).toBe('br');
        return Number(response.headers.get('content-length'));
      }),
    );
    expect(sizes.reduce((sum, size) => sum + size) + page.length).toBeLessThan(150_000);
    const withoutBrotli = await fetch(site.url + (hrefs[0] ?? ''), { headers: { 'accept-encoding': 'br;q=0, gzip' } });
    expect([withoutBrotli.status, withoutBrotli.headers.get('content-encoding')]).toEqual([200, 'gzip']);
    expect((await fetch(`${site.url}/console/assets/console-0.css`)).status).toBe(404);
  });
});
