/** Tests `/my-key` over HTTP and in a browser, i.e. what a key holder sees, and what ends their access. */
import { describe, expect, test } from '@jest/globals';
import { sharedChromium } from '../../support/chromium.ts';
import { expectAccessible, signIn } from '../../support/console.ts';
import { jsonOf, shareGateway, type TestGateway } from '../../support/gateway.ts';

const lent = shareGateway({ database: 'any' });
const chromium = sharedChromium();

interface Holder {
  readonly key: string;
  readonly prefix: string;
  readonly project: string;
  call(text: string): Promise<Response>;
}

async function issue({ admin, project, call }: TestGateway, settings: object = {}): Promise<Holder> {
  const body = { name: 'laptop', ...settings };
  const { key, prefix } = await jsonOf<{ key: string; prefix: string }>(admin('POST', `/provision/teams/${project}/keys`, body));
  return {
    ...{ key, prefix, project },
    call: async (content) => {
      const request = { model: 'one/echo', messages: [{ role: 'user', content }] };
      const response = await call('/v1/chat/completions', request, { authorization: `Bearer ${key}` });
      await response.arrayBuffer();
      return response;
    },
  };
}

/** A browser without JavaScript that keeps cookies and submits the form of a page. */
function browse(url: string) {
  const cookies = new Map<string, string>();
  const request = async (path: string, init: RequestInit = {}): Promise<{ status: number; text: string; headers: Headers }> => {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const response = await fetch(url + path, { ...init, headers: { cookie, ...init.headers }, redirect: 'manual' });
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (value === '') cookies.delete(name);
      else cookies.set(name, value);
    }
    return { status: response.status, text: await response.text(), headers: response.headers };
  };
  const post = async (path: string, fields: Record<string, string>) => {
    const { text } = await request('/my-key');
    const csrf = /name="csrf" value="([^"]+)"/.exec(text)?.[1] ?? '';
    return request(path, { method: 'POST', body: new URLSearchParams({ csrf, ...fields }) });
  };
  return { cookies, get: (path = '/my-key') => request(path), paste: (key: string) => post('/my-key', { key }), post };
}

describe('/my-key', () => {
  test('a key holder sees only the spend, ceilings and calls of that key', async () => {
    const gateway = await lent().withProject('holder');
    const ceilings = { calls: 100, cost: 2, rpm: 60 };
    const mine = await issue(gateway, { ceilings, windows: { calls: 'day' }, models: ['one/echo'], expires_at: '2030-01-01T00:00:00Z' });
    const other = await issue(gateway, { name: 'of somebody else' });
    await mine.call('my private question');
    await other.call('their private question');
    const browser = browse(gateway.url);
    const opened = await browser.paste(` ${mine.key} `);
    expect([opened.status, opened.headers.get('location')]).toEqual([303, '/my-key']);
    expect(opened.headers.get('set-cookie')).toMatch(/gateway_key_pass=[^;]+; Path=\/; HttpOnly; SameSite=Lax; Max-Age=3600/);
    const { status, text, headers } = await browser.get();
    expect([status, headers.get('cache-control')]).toEqual([200, 'no-store']);
    expect(text).toContain('<h1>laptop</h1>');
    expect(text).toMatch(/1 of 100 today \(UTC\), <strong>99 left/);
    expect(text).toMatch(/of \$2\.00 this month \(UTC\)/);
    expect(text).toMatch(/2030-01-01 00:00/);
    expect(text.match(/data-label="Time"/g)).toHaveLength(1);
    for (const hidden of [mine.key, other.prefix, 'of somebody else', 'private question']) expect(text).not.toContain(hidden);
    expect([...browser.cookies.values()].join()).not.toContain(mine.key.slice(15));
    const csv = await browser.get('/my-key.csv');
    expect(csv.text.trim().split('\n')).toHaveLength(2);
    // A pass is neither a key nor a session.
    const pass = browser.cookies.get('gateway_key_pass') ?? '';
    expect((await gateway.call('/v1/models', undefined, { authorization: `Bearer ${pass}` })).status).toBe(401);
    expect((await browser.get('/console/p/holder/calls')).status).toBe(303);
  });

  test('returns 401 for an invalid virtual key and 429 after many attempts', async () => {
    const { url, database } = lent();
    await database.query('delete from sign_in_failures');
    const browser = browse(url);
    const statuses: number[] = [];
    for (let attempt = 0; attempt < 31; attempt += 1) statuses.push((await browser.paste('sk-gw-wrong')).status);
    expect(statuses.slice(0, 30)).toEqual(Array(30).fill(401));
    expect(statuses[30]).toBe(429);
    await database.query('delete from sign_in_failures');
    const holder = await issue(lent());
    expect((await browser.paste(holder.key)).status).toBe(303);
    const pass = browser.cookies.get('gateway_key_pass') ?? '';
    const [prefix = '', endsAt = '', signature = ''] = pass.split('.');
    for (const forged of [`${prefix}.${Number(endsAt) + 1}.${signature}`, `aaaaaaaa.${endsAt}.${signature}`, 'x']) {
      browser.cookies.set('gateway_key_pass', forged);
      expect((await browser.get()).text).toContain('Paste the key again');
      expect(browser.cookies.has('gateway_key_pass')).toBe(false);
    }
  });

  test('returns 403 for a key form without a CSRF token', async () => {
    const { url } = lent();
    const { key } = await issue(lent());
    expect((await fetch(`${url}/my-key`, { method: 'POST', body: new URLSearchParams({ key }) })).status).toBe(403);
    expect(await (await fetch(`${url}/my-key?key=${key}`)).text()).not.toContain('laptop');
  });

  test('signs a key holder out of the usage page when the key is revoked', async () => {
    const gateway = lent();
    const holder = await issue(gateway);
    const browser = browse(gateway.url);
    await browser.paste(holder.key);
    expect((await browser.get()).text).toContain('<h1>laptop</h1>');
    await browser.post('/my-key/close', {});
    expect((await browser.get()).text).toContain('<h1>Key usage</h1>');
    await browser.paste(holder.key);
    await gateway.admin('DELETE', `/provision/teams/${gateway.project}/keys/${holder.prefix}`);
    const { text } = await browser.get();
    expect(text).toContain('Paste the key again');
    expect(text).not.toContain('laptop');
    expect((await browser.get('/my-key.csv')).status).toBe(401);
  });

  test('shows the key usage page to signed-in people as well', async () => {
    const member = await signIn(lent(), 'member');
    expect(await (await member.get('/my-key')).text()).toContain('<h1>Key usage</h1>');
  });
});

test.each([
  ['light', 1280],
  ['dark', 390],
] as const)('the key usage page is accessible (%s, %d pixels)', async (colorScheme, width) => {
  const gateway = lent();
  const holder = await issue(gateway, { ceilings: { calls: 4, cost: 1 } });
  for (const text of ['one', 'two', 'three']) await holder.call(text);
  const context = await chromium().newContext({ colorScheme, viewport: { width, height: 900 } });
  const page = await context.newPage();
  const problems: string[] = [];
  page.on('console', (message) => message.type() === 'error' && problems.push(message.text()));
  await page.goto(`${gateway.url}/my-key`);
  await expectAccessible(page);
  await page.getByLabel('Virtual key').fill(holder.key);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Ceilings' }).waitFor();
  await expectAccessible(page);
  expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBeLessThanOrEqual(0);
  expect(page.url()).toBe(`${gateway.url}/my-key`);
  expect(problems).toEqual([]);
  await context.close();
});
