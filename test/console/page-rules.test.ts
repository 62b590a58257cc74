/**
 * Rules for all pages of the console, checked in Chromium. They have to be accessible and light, and have to work
 * without JavaScript and with only the keyboard.
 */
import { beforeAll, describe, expect, test } from '@jest/globals';
import type { Locator, Page } from 'playwright-core';
import { sharedChromium } from '../support/chromium.ts';
import { expectAccessible } from '../support/console.ts';
import { type PlantedProject, pagesOf, plantProject } from '../support/console-pages.ts';
import { jsonOf, shareGateway } from '../support/gateway.ts';

const gateway = shareGateway({ database: 'any' });
const chromium = sharedChromium();
const maxBytes = 150_000;
const texts = ['Prefers tea', 'Orders on Fridays', 'Reads invoices'];
const narrow = { width: 390, height: 900 };
const wide = { width: 1280, height: 900 };
let planted: PlantedProject;

beforeAll(async () => {
  planted = await plantProject(gateway(), texts);
});

/** A signed-in page whose errors, and requests to other hosts, are collected. */
async function openBrowser(options: Parameters<ReturnType<typeof chromium>['newContext']>[0] = {}) {
  const context = await chromium().newContext(options);
  await planted.admin.useIn(context);
  const page = await context.newPage();
  const problems: string[] = [];
  // The browser also reports the status of error pages, which we expect.
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

/**
 * Opens a page that can show copies of other pages, without running their scripts. axe needs four times as much CPU
 * time in a page that has just been loaded, so all checks run in this one.
 */
async function openCopies(options: Parameters<typeof openBrowser>[0]) {
  const { page } = await openBrowser(options);
  await page.route('**/*.js', (route) => route.abort());
  await page.goto(`${gateway().url}/console/sign-in`);
  return {
    page,
    show: (html: string) =>
      page.evaluate(`(async () => {
        const copy = new DOMParser().parseFromString(${JSON.stringify(html)}, 'text/html').documentElement;
        document.documentElement.replaceWith(document.adoptNode(copy));
        await Promise.all([...document.querySelectorAll('link[rel=stylesheet]')].map((link) => link.sheet
          ?? new Promise((loaded, failed) => { link.onload = loaded; link.onerror = failed; })));
      })()`),
    async checkStructure() {
      await expectAccessible(page, { except: ['color-contrast'] });
    },
    async checkLooks() {
      await expectAccessible(page, { only: ['color-contrast'], elements: newLooks });
      expect(await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')).toBeLessThanOrEqual(0);
    },
  };
}

/**
 * Finds the elements with text whose colours, font and backgrounds didn't appear on an earlier page. Checking contrasts
 * takes more CPU time than all other rules together, so we only check these.
 */
const newLooks = `(() => {
  window.looks ??= new Set();
  const surroundings = new Map([[null, '']]);
  const surroundingsOf = (element) => {
    const known = surroundings.get(element);
    if (known !== undefined) return known;
    const { backgroundColor, backgroundImage, opacity, filter } = getComputedStyle(element);
    const own = [backgroundColor, backgroundImage, opacity, filter].join();
    const parents = surroundingsOf(element.parentElement);
    const all = own === 'rgba(0, 0, 0, 0),none,1,none' ? parents : parents + ';' + own;
    surroundings.set(element, all);
    return all;
  };
  const hasText = (element) => element.matches('input, select, textarea')
    || [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim() !== '');
  return [...document.body.querySelectorAll('*')].filter(hasText).filter((element) => {
    const { color, fill, fontSize, fontWeight } = getComputedStyle(element);
    const look = [color, fill, fontSize, fontWeight, surroundingsOf(element)].join();
    return !window.looks.has(look) && window.looks.add(look);
  });
})()`;

describe('every page is accessible, small and works without JavaScript', () => {
  const open = async () => ({
    scripted: await openBrowser({ viewport: narrow }),
    light: await openCopies({ viewport: narrow, colorScheme: 'light' }),
    dark: await openCopies({ viewport: wide, colorScheme: 'dark' }),
  });
  let browsers: Awaited<ReturnType<typeof open>>;
  beforeAll(async () => {
    browsers = await open();
  });

  // Jest needs the titles before the ids exist.
  const ids = new Proxy({}, { get: () => 'ID' });
  test.each([...pagesOf({ slug: 'acme', subject: `ann ${texts[0]}`, ids }).entries()])('page %i is accessible: %s', async (index) => {
    const path = pagesOf(planted)[index];
    const { scripted, light, dark } = browsers;
    scripted.problems.length = 0;
    const response = await scripted.page.goto(gateway().url + path);
    const bytes = await scripted.page.evaluate<number>(
      `performance.getEntries().reduce((sum, entry) => sum + (entry.encodedBodySize ?? 0), 0)`,
    );
    expect(bytes).toBeGreaterThan(0);
    expect(bytes).toBeLessThan(maxBytes);
    await light.show((await response?.text()) ?? '');
    expect(await visibleText(light.page)).toBe(await visibleText(scripted.page));
    const html = await scripted.page.evaluate<string>('document.documentElement.outerHTML');
    await light.show(html);
    await light.checkStructure();
    await light.checkLooks();
    await dark.show(html);
    await dark.checkLooks();
    expect(scripted.problems).toEqual([]);
  });
});

test('people can sign in, create a key and open a call with the keyboard alone', async () => {
  const { context, page } = await openBrowser();
  await context.clearCookies();
  const [email, password] = ['kim@example.com', 'correct horse battery'];
  const made = await jsonOf<{ sign_in_url: string }>(gateway().admin('POST', '/provision/people', { email, name: 'Kim', admin: true }));
  /** Presses Tab until the element has the focus. */
  const reach = async (element: Locator): Promise<void> => {
    const target = await element.elementHandle();
    for (let presses = 0; presses < 120; presses += 1) {
      if (await target?.evaluate((field) => field.matches(':focus'))) {
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
