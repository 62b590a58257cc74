/** Tests that what people typed into a form isn't lost when their session ends. */
import { expect, test } from '@jest/globals';
import { sharedChromium } from '../support/chromium.ts';
import { expectAccessible, signIn } from '../support/console.ts';
import { jsonOf, shareGateway } from '../support/gateway.ts';
import { textOf } from '../support/page-text.ts';

const gateway = shareGateway({ database: 'any' });
const browser = sharedChromium();
const keys = '/console/p/acme/keys';

test('restores an unsaved form after the session expires and the user signs in again', async () => {
  const context = await browser().newContext({ baseURL: gateway().url, viewport: { width: 390, height: 800 } });
  const [email, password] = ['vera@example.com', 'correct horse battery'];
  const { sign_in_url: url } = await jsonOf<{ sign_in_url: string }>(
    gateway().admin('POST', '/provision/people', { email, name: 'Vera', admin: true }),
  );
  const page = await context.newPage();
  await page.goto(url);
  await page
    .getByLabel(/^Password/)
    .first()
    .fill(password);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor();

  await page.goto(`${keys}/new`);
  await page.getByLabel('Name').fill(`Vera's <b>shop</b>`);
  await page.getByLabel('Models and tiers').fill('standard\none/echo');
  await gateway().database.query('delete from sessions');
  await page.getByRole('button', { name: 'Create key' }).click();
  await page.getByRole('heading', { name: 'Your session has ended' }).waitFor();
  await expectAccessible(page);
  await page.getByText('What you entered').click();
  expect(await page.locator('.kept-input').textContent()).toContain(`Vera's <b>shop</b>`);
  // Sending it before signing in keeps it once more.
  await page.getByRole('button', { name: 'Send again' }).click();
  await page.getByRole('heading', { name: 'Your session has ended' }).waitFor();

  const opened = context.waitForEvent('page');
  await page.getByRole('link', { name: 'Sign in again in a new tab' }).click();
  const tab = await opened;
  await tab.getByLabel('E-mail address').fill(email);
  await tab.getByLabel('Password').fill(password);
  await tab.keyboard.press('Enter');
  await tab.getByRole('heading', { name: 'You are signed in' }).waitFor();

  await page.getByRole('button', { name: 'Send again' }).click();
  await page.getByRole('heading', { name: `Key Vera's <b>shop</b>` }).waitFor();
  const [stored] = await gateway().database.query('select name, models from virtual_keys order by id desc limit 1');
  expect(stored).toEqual({ name: `Vera's <b>shop</b>`, models: ['standard', 'one/echo'] });
  await context.close();
});

test("doesn't restore passwords, NUL characters, cross-site forms or empty forms after sign-in", async () => {
  const post = (path: string, fields: Record<string, string>, headers: Record<string, string> = { 'sec-fetch-site': 'same-origin' }) =>
    fetch(gateway().url + path, { method: 'POST', headers, body: new URLSearchParams(fields), redirect: 'manual' });
  const password = await post('/console/account/password', { password: 'secret of mine', repeated: 'secret of mine' });
  expect([password.status, (await password.text()).includes('secret of mine')]).toEqual([303, false]);
  expect((await post('/console/sign-out', { csrf: 'x' })).status).toBe(303);
  const nul = await post(keys, { name: 'a\0b' });
  expect([nul.status, nul.headers.get('location')]).toEqual([303, '/console/sign-in?next=%2Fconsole']);
  expect((await post(keys, { name: 'x' }, { 'sec-fetch-site': 'cross-site' })).status).toBe(403);
  expect((await post(keys, { name: 'x'.repeat(300_000) })).status).toBe(303);
  expect(await textOf(post(keys, { name: 'kept', 'models"><script>': '' }), 401)).toContain('kept');
  expect(await textOf(post(keys, { 'ceilings.rpm': '60' }), 401)).toContain('Ceilings, calls per minute 60');
});

test("doesn't submit a restored form without a valid CSRF token", async () => {
  const member = await signIn(gateway(), 'member');
  const kept = await fetch(gateway().url + keys, {
    ...{ method: 'POST', headers: { 'sec-fetch-site': 'same-origin' }, body: new URLSearchParams({ name: 'not theirs' }) },
  });
  const [formCookie = ''] = kept.headers.getSetCookie()[0]?.split(';') ?? [];
  const csrf = /name="csrf" value="([^"]+)"/.exec(await kept.text())?.[1] ?? '';
  const send = (cookie: string, token: string) =>
    fetch(gateway().url + keys, { method: 'POST', headers: { cookie }, body: new URLSearchParams({ name: 'not theirs', csrf: token }) });
  expect((await send(`${member.cookie}; ${formCookie}`, csrf)).status).toBe(403);
  const owner = await signIn(gateway(), 'owner');
  expect((await send(owner.cookie, csrf)).status).toBe(403);
  expect((await send(`${owner.cookie}; ${formCookie}`, csrf)).status).toBe(200);
});
