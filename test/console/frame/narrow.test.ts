/** Tests lists and filters on tablets and phones, in a browser without JavaScript. */
import { beforeAll, describe, expect, test } from '@jest/globals';
import { sharedChromium } from '../../support/chromium.ts';
import { expectAccessible, type SignedIn, signIn } from '../../support/console.ts';
import { shareGateway } from '../../support/gateway.ts';

const gateway = shareGateway({ database: 'any' });
const chromium = sharedChromium();
let person: SignedIn;

beforeAll(async () => {
  for (const source of ['shop', 'crm']) {
    const body = { model: 'one/echo', messages: [{ role: 'user', content: 'hi' }] };
    await (await gateway().call('/v1/chat/completions', body, { 'x-gateway-source': source })).arrayBuffer();
  }
  await gateway().admin('GET', '/provision/teams/acme/calls'); // Waits until the calls are stored.
  person = await signIn(gateway(), 'member');
});

async function openCalls(width: number, javaScriptEnabled: boolean) {
  const context = await chromium().newContext({ viewport: { width, height: 900 }, javaScriptEnabled });
  await person.useIn(context);
  const page = await context.newPage();
  await page.goto(`${gateway().url}/console/p/acme/calls`);
  return page;
}

describe.each([390, 820])('on a screen %i pixels wide', (width) => {
  test('hides filters on narrow screens until they are opened', async () => {
    const page = await openCalls(width, false);
    expect(await page.locator('#field-source').isVisible()).toBe(false);
    await page.getByRole('button', { name: 'Filters' }).click();
    await page.locator('#field-source').fill('crm');
    await page.getByRole('button', { name: 'Apply' }).click();
    await page.getByRole('button', { name: 'Filters (1)' }).waitFor();
    const rows = page.locator('main tbody tr.linked');
    expect(await rows.count()).toBe(1);
    expect(await rows.first().textContent()).toContain('crm');
  });

  test('shows table rows as labeled blocks on narrow screens', async () => {
    const page = await openCalls(width, true);
    const [first, second] = await Promise.all([0, 1].map((index) => page.locator('main tbody tr.linked').nth(index).boundingBox()));
    expect(await page.getByRole('columnheader', { name: 'Latency' }).isVisible()).toBe(false);
    expect(first?.height).toBeLessThan(100);
    expect(first?.y).toBeLessThan(second?.y ?? 0);
    const label = `getComputedStyle(document.querySelector('td[data-label="Latency"]'), '::before').content`;
    expect(await page.evaluate(label)).toBe('"Latency"');
    expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBeLessThanOrEqual(0);
    await page.getByRole('button', { name: 'Filters' }).click();
    await expectAccessible(page);
  });
});

test('shows filters and all table columns on wide screens', async () => {
  const page = await openCalls(1280, false);
  expect(await page.getByRole('button', { name: 'Filters' }).isVisible()).toBe(false);
  expect(await page.locator('#field-source').isVisible()).toBe(true);
  expect(await page.getByRole('columnheader', { name: 'Latency' }).isVisible()).toBe(true);
});
