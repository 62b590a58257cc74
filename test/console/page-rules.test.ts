/** Rules for every page of the console, checked in Chromium: accessible, light, complete without JavaScript, usable with the keyboard alone. */
import { beforeAll, expect, test } from '@jest/globals';
import type { Locator, Page } from 'playwright-core';
import { sharedChromium } from '../support/chromium.ts';
import { expectAccessible } from '../support/console.ts';
import { type PlantedProject, pagesOf, plantProject } from '../support/console-pages.ts';
import { jsonOf, shareGateway } from '../support/gateway.ts';

const gateway = shareGateway({ database: 'any' });
const chromium = sharedChromium();
const maxBytes = 150_000;
let planted: PlantedProject;

beforeAll(async () => {
  planted = await plantProject(gateway(), ['Prefers tea', 'Orders on Fridays', 'Reads invoices']);
});

/** A signed-in page whose errors, and requests to other hosts, are collected. */
async function openBrowser(options: Parameters<ReturnType<typeof chromium>['newContext']>[0] = {}) {
  const context = await chromium().newContext(options);
  await planted.admin.useIn(context);
  const page = await context.newPage();
  const problems: string[] = [];
  // The status of error pages is reported as an error too.
  page.on('console', (message) => {
    if (message.type() === 'error' && !message.text().includes('Failed to load resource'))
      problems.push(`${page.url()}: ${message.text()}`);
  });
  page.on('pageerror', (error) => problems.push(`${page.url()}: ${error.message}`));
  page.on('request', (request) => !request.url().startsWith(gateway().url) && problems.push(`${page.url()}: ${request.url()}`));
  return { context, page, problems };
}

/** Visible text, without what changes with time and what scripts add. */
async function visibleText(page: Page): Promise<string> {
  const text = await page.evaluate<string>(`document.querySelector('main').innerText`);
  return text
    .replaceAll(/\b(?:Copy|File)\b|[\d.,:]+ ?(?:(?:ms|s|seconds?|minutes?|min)\b)?(?: ago)?|just now/g, '')
    .replaceAll(/\s+/g, ' ')
    .trim();
}

test(`every page is accessible in both schemes, weighs less than ${maxBytes / 1_000} kB and shows the same without JavaScript`, async () => {
  const [narrow, wide] = [
    { width: 390, height: 900 },
    { width: 1280, height: 900 },
  ];
  const [{ context, page, problems }, plain] = [
    await openBrowser({ viewport: narrow }),
    await openBrowser({ viewport: narrow, javaScriptEnabled: false }),
  ];
  const client = await context.newCDPSession(page);
  await client.send('Network.enable');
  await client.send('Network.setCacheDisabled', { cacheDisabled: true });
  let bytes = 0;
  client.on('Network.loadingFinished', ({ encodedDataLength }) => {
    bytes += encodedDataLength;
  });
  const check = async (path: string, rules: readonly string[] = []): Promise<void> => {
    await expectAccessible(page, rules).catch((error: Error) => problems.push(`${path}: ${error.message}`));
    const sideways = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth');
    if (sideways > 0) problems.push(`${path}: scrolls sideways by ${sideways}`);
  };
  for (const path of pagesOf(planted)) {
    bytes = 0;
    await page.emulateMedia({ colorScheme: 'light' });
    await page.setViewportSize(narrow);
    await Promise.all([page, plain.page].map((each) => each.goto(gateway().url + path)));
    if (bytes === 0 || bytes >= maxBytes) problems.push(`${path}: ${bytes} bytes`);
    expect([path, await visibleText(plain.page)]).toEqual([path, await visibleText(page)]);
    await check(path);
    await page.emulateMedia({ colorScheme: 'dark' });
    await page.setViewportSize(wide);
    // Only colours differ from the light scheme.
    await check(path, ['color-contrast']);
  }
  expect([...problems, ...plain.problems]).toEqual([]);
  await Promise.all([context.close(), plain.context.close()]);
});

test('the keyboard alone signs in, creates a key and opens a call, with the focus visible', async () => {
  const { context, page } = await openBrowser();
  await context.clearCookies();
  const [email, password] = ['kim@example.com', 'correct horse battery'];
  const made = await jsonOf<{ sign_in_url: string }>(gateway().admin('POST', '/provision/people', { email, name: 'Kim', admin: true }));
  /** Presses Tab until the element has the focus. */
  const reach = async (element: Locator): Promise<void> => {
    await element.waitFor();
    for (let presses = 0; presses < 120; presses += 1) {
      if (await element.evaluate((field) => field.matches(':focus'))) {
        expect([String(element), await page.evaluate(hasVisibleFocus)]).toEqual([String(element), true]);
        return;
      }
      await page.keyboard.press('Tab');
    }
    throw new Error(`the keyboard does not reach ${element}, but ${await page.evaluate('document.activeElement.outerHTML')}`);
  };
  const press = async (role: 'link' | 'button', name: string | RegExp): Promise<void> => {
    await reach(page.getByRole(role, { name }).first());
    await page.keyboard.press('Enter');
  };
  const type = async (name: string | RegExp, text: string): Promise<void> => {
    await reach(page.getByLabel(name).first());
    await page.keyboard.type(text);
  };
  const heading = (name: string): Promise<void> => page.getByRole('heading', { name, level: 1 }).waitFor();

  // The first visit sets the password.
  await page.goto(made.sign_in_url);
  await type(/^Password/, password);
  await page.keyboard.press('Enter');
  await heading('Overview');
  await context.clearCookies();
  await page.goto(`${gateway().url}/console/sign-in`);
  await type('E-mail address', email);
  await type('Password', password);
  await press('button', 'Sign in');
  await heading('Overview');

  await page.keyboard.press('Tab');
  await press('link', 'Skip to content');
  expect(await page.evaluate('document.activeElement.id')).toBe('main');

  await page.goto(`${gateway().url}/console/p/acme/keys`);
  await press('link', 'New key');
  await heading('New key');
  await type('Name', 'from the keyboard');
  await press('button', 'Create key');
  await heading('Key from the keyboard');
  await press('link', 'Calls');
  await heading('Calls');
  const row = await page.locator('main tbody a.row-link').first().textContent();
  await press('link', row ?? '');
  await heading('Call');
  await context.close();
});

const hasVisibleFocus = `[getComputedStyle(document.activeElement), getComputedStyle(document.activeElement, '::after')]
  .some((style) => (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== 'none')`;
