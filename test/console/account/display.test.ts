/** Tests the theme and the time zone that a person chooses, in a browser without JavaScript. */
import { expect, test } from '@jest/globals';
import { sharedChromium } from '../../support/chromium.ts';
import { expectAccessible, signIn } from '../../support/console.ts';
import { shareGateway } from '../../support/gateway.ts';

const shared = shareGateway({ database: 'any' });
const chromium = sharedChromium();
const background = 'getComputedStyle(document.documentElement).backgroundColor';
const white = 'rgb(255, 255, 255)';

test('switches between light and dark mode in the account menu', async () => {
  const gateway = shared();
  const person = await signIn(gateway, 'member');
  const open = async (javaScriptEnabled: boolean) => {
    const context = await chromium().newContext({ colorScheme: 'light', javaScriptEnabled });
    await person.useIn(context);
    const page = await context.newPage();
    await page.goto(`${gateway.url}/console/p/acme/calls?source=bot`);
    return page;
  };
  const page = await open(false);
  expect(await page.evaluate(background)).toBe(white);
  const choose = async (theme: string) => {
    await page.locator('.menu.person summary').click();
    await page.getByRole('button', { name: theme }).click();
    await page.waitForLoadState();
  };
  await choose('Dark');
  expect(page.url()).toBe(`${gateway.url}/console/p/acme/calls?source=bot`);
  expect(await page.evaluate(background)).not.toBe(white);
  await page.locator('.menu.person summary').click();
  expect(await page.getByRole('button', { name: 'Dark' }).getAttribute('aria-pressed')).toBe('true');
  const other = await open(true);
  expect(await other.evaluate(background)).not.toBe(white);
  await other.locator('.menu.person summary').click();
  await expectAccessible(other);
  await page.reload();
  await choose('System');
  expect(await page.evaluate(background)).toBe(white);
});

test("shows times in the user's time zone, or in the project's if the user has none", async () => {
  const gateway = shared();
  await gateway.admin('PUT', '/provision/teams/acme', { time_zone: 'Europe/Berlin' });
  const person = await signIn(gateway, 'member');
  await (await gateway.call('/v1/chat/completions', { model: 'one/echo', messages: [{ role: 'user', content: 'hi' }] })).arrayBuffer();
  await gateway.admin('GET', '/provision/teams/acme/calls'); // Waits until the call is stored.
  const zonesOf = async (path: string) => new Set((await (await person.get(path)).text()).match(/Europe\/Berlin|Asia\/Kathmandu/g));
  expect(await zonesOf('/console/p/acme/overview')).toEqual(new Set(['Europe/Berlin']));
  const saved = await person.post('/console/account/display', { theme: '', time_zone: 'Asia/Kathmandu' });
  expect([saved.status, saved.headers.get('location')]).toEqual([303, '/console/account']);
  expect(await zonesOf('/console/p/acme/overview')).toEqual(new Set(['Asia/Kathmandu']));
  expect(await (await person.get('/console/p/acme/overview.csv')).text()).toContain('Asia/Kathmandu');
  await person.post('/console/account/display', { theme: '', time_zone: '' });
  expect(await zonesOf('/console/p/acme/overview')).toEqual(new Set(['Europe/Berlin']));
});

test("rejects an unknown time zone or theme and keeps the form's values", async () => {
  const person = await signIn(shared(), 'member');
  const response = await person.post('/console/account/display', { theme: 'dark', time_zone: 'Mars/Olympus' });
  expect(response.status).toBe(422);
  const text = await response.text();
  expect(text).toContain('value="Mars/Olympus"');
  expect(text).toContain('Must be the IANA name of a time zone, for example Europe/Berlin.');
  expect((await person.post('/console/account/theme', { theme: 'pink', next: '/console' })).status).toBe(400);
  const elsewhere = await person.post('/console/account/theme', { theme: 'dark', next: '//evil.example/' });
  expect(elsewhere.headers.get('location')).toBe('/console');
});
