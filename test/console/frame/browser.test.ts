import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { sharedChromium } from '../../support/chromium.ts';
import { expectAccessible } from '../../support/console.ts';
import { type SampleConsole, startSampleConsole } from './sample-console.ts';

const chromium = sharedChromium();
let site: SampleConsole;
beforeAll(async () => {
  site = await startSampleConsole();
});
afterAll(() => site.close());

describe('console pages in a browser', () => {
  test.each([
    ['light', 1280],
    ['dark', 390],
  ] as const)('pages are accessible and comply with the content security policy (%s, %d pixels)', async (colorScheme, width) => {
    const context = await chromium().newContext({ colorScheme, viewport: { width, height: 900 } });
    await context.addCookies([{ name: 'gateway_session', value: 'admin', url: site.url }]);
    const page = await context.newPage();
    const problems: string[] = [];
    page.on('console', (message) => message.type() === 'error' && problems.push(message.text()));
    page.on('pageerror', (error) => problems.push(error.message));
    for (const path of ['/console/p/acme/overview', '/console/p/acme/keys']) {
      await page.goto(site.url + path);
      await expectAccessible(page);
      // The page never scrolls sideways, and no stored text ran as a script.
      expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBeLessThanOrEqual(0);
      expect(await page.title()).toMatch(/ · Gateway$/);
      expect(await page.evaluate('typeof htmx.config')).toBe('object');
    }
    expect(problems).toEqual([]);
    await context.close();
  });

  test('the content, navigation and menus can be reached with the keyboard', async () => {
    const context = await chromium().newContext({ viewport: { width: 390, height: 800 }, javaScriptEnabled: false });
    await context.addCookies([{ name: 'gateway_session', value: 'owner', url: site.url }]);
    const page = await context.newPage();
    await page.goto(`${site.url}/console/p/acme/overview`);
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    expect(new URL(page.url()).hash).toBe('#main');
    // The navigation on a phone opens and closes without JavaScript too.
    await page.getByRole('button', { name: 'Menu' }).press('Enter');
    await page.getByRole('link', { name: 'Keys' }).press('Enter');
    await page.waitForURL('**/keys');
    await page.locator('.projects summary').press('Enter');
    expect(await page.getByRole('navigation', { name: 'Projects' }).isVisible()).toBe(true);
    await context.close();
  });
});
