import { expect, test } from '@jest/globals';
import type { Page } from 'playwright-core';
import { systemClock } from '../../../src/core/time.ts';
import { createPeople } from '../../../src/people/people.ts';
import { signInLinkUrl } from '../../../src/people/sign-in-links.ts';
import { sharedChromium } from '../../support/chromium.ts';
import { expectAccessible } from '../../support/console.ts';
import { shareGateway } from '../../support/gateway.ts';

const gateway = shareGateway({ database: 'any' });
const chromium = sharedChromium();

/** Types into the focused field, then goes to the next one. */
async function typeAndTab(page: Page, ...texts: readonly string[]): Promise<void> {
  for (const text of texts) {
    await page.keyboard.type(text);
    await page.keyboard.press('Tab');
  }
}

test('lets a person create the first account and sign in with the keyboard alone', async () => {
  const { url, database } = gateway();
  const people = createPeople({ database, clock: systemClock });
  const context = await chromium().newContext();
  try {
    const page = await context.newPage();
    await page.goto(`${url}/console`);
    await page.getByText('Nobody has an account yet').waitFor();
    await expectAccessible(page);

    const { secret } = await people.links.issue(null);
    await page.goto(signInLinkUrl(url, secret));
    await expectAccessible(page);
    await page.getByLabel('E-mail address').focus();
    await typeAndTab(page, 'ann@example.com', 'Ann Example', 'correct horse battery');
    await page.keyboard.press('Enter');
    await page.waitForURL((address) => !address.pathname.includes('sign-in'));

    const elsewhere = await people.sessions.start((await people.accounts.findByEmail('ann@example.com'))?.id ?? '', {
      userAgent: 'Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Version/18.0 Safari/604.1',
    });
    await page.goto(`${url}/console/account`);
    await expectAccessible(page);
    await page.getByRole('button', { name: 'Sign out Safari on iPhone' }).focus();
    await page.keyboard.press('Enter');
    await page.getByText('The session was signed out.').waitFor();
    expect(await people.sessions.find(elsewhere.secret)).toBeNull();

    await page.locator('summary').filter({ hasText: 'Ann Example' }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Sign out', exact: true }).focus();
    await page.keyboard.press('Enter');
    await page.waitForURL('**/console/sign-in');
    await page.goto(`${url}/console/account`);
    // The browser may only focus the first field after `goto` has resolved. Keys before that would be lost.
    await page.locator('input[type=email]:focus').waitFor();
    await typeAndTab(page, 'ann@example.com', 'wrong password');
    await page.keyboard.press('Enter');
    await page.getByText('The e-mail address or the password is wrong.').waitFor();
    await expectAccessible(page);
    expect(await page.getByLabel('E-mail address').inputValue()).toBe('ann@example.com');
    await page.locator('input[type=password]:focus').waitFor();
    await page.keyboard.type('correct horse battery');
    await page.keyboard.press('Enter');
    await page.waitForURL('**/console/account');
  } finally {
    await context.close();
  }
});
