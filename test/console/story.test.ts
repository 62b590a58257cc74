/**
 * Uses the console like the first people on a new installation do, with the real program in a terminal, Temporal, and
 * Chromium. Each test continues where the last one ended.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import OpenAI from 'openai';
import type { BrowserContext, Locator, Page } from 'playwright-core';
import { sharedChromium } from '../support/chromium.ts';
import { copyTestBundle, jsonOf } from '../support/gateway.ts';
import { createProcesses, type GatewayProcess, root, shortLived } from '../support/gateway-process.ts';
import { createMemoryVendor } from '../support/memory-vendor.ts';
import { createScriptedVendor, type ScriptedVendor } from '../support/scripted-vendor/server.ts';
import { until } from '../support/temporal.ts';

const chromium = sharedChromium();
const processes = createProcesses();
const memoryVendor = await createMemoryVendor();
const subject = 'user-17';
let vendor: ScriptedVendor;
let gateway: GatewayProcess;
let context: BrowserContext;
let page: Page;
let key = '';
const problems: string[] = [];

beforeAll(async () => {
  vendor = await createScriptedVendor({ port: 0, paceMs: 0 });
  const { home, env } = await processes.homeWithAnyDatabase();
  await writeFile(join(home, 'gateway.yaml'), yaml());
  await mkdir(join(home, 'data'), { recursive: true });
  await copyTestBundle(join(home, 'data'));
  // `script` runs the program on a terminal, where the banner contains the link.
  const command = `stty -onlcr; exec ${[process.execPath, ...shortLived, join(root, 'src', 'main.ts')].map((part) => `'${part}'`).join(' ')} start`;
  const program = ['script', '--quiet', '--return', '--flush', '--command', command, '/dev/null'];
  gateway = await processes.start('start', { home, program, env: { ...env, GATEWAY_TEMPORAL: '' } });
  context = await chromium().newContext();
  page = await watch(context);
});
afterAll(async () => {
  await context?.close();
  await processes.stopAll();
  await vendor?.close();
  memoryVendor.close();
});

function yaml(): string {
  return memoryVendor.yaml
    .replace(
      /providers:.*/,
      (line) => `providers:\n  demo: { base_url: ${vendor.url}/v1, api_key: any, dialect: chat }\n  ${line.slice(13, -2)}`,
    )
    .replace(
      /models:.*/,
      'models: { one/m: { input: 1, output: 1 }, demo/echo: { input: 200, output: 900 }, demo/long-40: { input: 1, output: 5 }, demo/long-20+stall-after-3: { input: 1, output: 5 } }',
    )
    .replace(/tiers:.*/, 'tiers: { standard: [demo/fail-503, demo/echo], trivial: [one/m] }')
    .replace(/retry:.*\}/, 'retry: { first_minutes: 0.002, factor: 1, longest_minutes: 360 } }');
}

/** Opens a page and collects its errors. */
async function watch(inContext: BrowserContext): Promise<Page> {
  const watched = await inContext.newPage();
  watched.on('console', (message) => message.type() === 'error' && problems.push(`${watched.url()}: ${message.text()}`));
  watched.on('pageerror', (error) => problems.push(`${watched.url()}: ${error.message}`));
  return watched;
}

const button = (name: string | RegExp, inPage = page) => inPage.getByRole('button', { name });
const heading = (name: string | RegExp, inPage = page): Promise<void> => inPage.getByRole('heading', { name, level: 1 }).waitFor();
const textOf = async (locator: Locator): Promise<string> => (await locator.textContent()) ?? '';
/** Opens a page through the navigation. */
async function open(name: string, inPage = page): Promise<void> {
  const navigation = inPage.getByRole('navigation', { name: 'Console' });
  await navigation.getByRole('link', { name, exact: true }).first().click();
  await heading(name, inPage);
}
/** Returns the figure in a card such as `Spend`. */
const figure = (label: string): Promise<string> => textOf(page.locator('.stat', { hasText: label }).locator('.stat-value').first());
/** The figure itself is rounded to cents. */
const exactSpend = async (): Promise<number> => {
  const title = await page.locator('.stat', { hasText: 'Spend' }).locator('.num').first().getAttribute('title');
  return Number(title?.replace(' USD', ''));
};
const say = (text: string): Promise<Response> =>
  gateway.call(
    key,
    '/v1/chat/completions',
    { model: 'trivial', messages: [{ role: 'user', content: text }] },
    { 'x-gateway-memory-subject': subject },
  );

/** Reloads until the page contains the text. */
async function untilShown(text: string): Promise<void> {
  await until(`the page shows ${text}`, async () => {
    await page.reload();
    return page.locator('main').getByText(text, { exact: true }).first().isVisible();
  });
}

describe('the first hour with the console', () => {
  test('creates the admin account with the link from the startup output', async () => {
    const link = /First sign-in +(http\S+)/.exec(gateway.stdout())?.[1] ?? '';
    await page.goto(link);
    await page.getByLabel('E-mail address').fill('ada@example.com');
    await page.getByLabel('Name').fill('Ada Lovelace');
    await page.getByLabel('Password').fill('correct horse battery');
    await button('Create the account').click();
    await heading('Overview');
    expect(page.url()).toBe(`${gateway.url}/console/p/default/overview`);
    expect(await page.locator('main').textContent()).toContain('No calls in default yet');
    const again = await page.request.get(link);
    expect([again.status(), await again.text()]).toEqual([404, expect.stringContaining('This link cannot be used')]);
  });

  test('serves a call from the OpenAI SDK with a new key and updates the spend', async () => {
    await open('Keys');
    await page.getByRole('link', { name: 'New key' }).click();
    await page.getByLabel('Name').fill('shop');
    await button('Create key').click();
    await heading('Key shop');
    key = await textOf(page.locator('main code', { hasText: /^sk-gw-/ }));

    const client = new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
    const ask = (content: string) => client.chat.completions.create({ model: 'standard', messages: [{ role: 'user', content }] });
    expect((await ask('Where is my order?')).choices[0]?.message.content).toBe('You said: Where is my order?');

    await open('Calls');
    const row = page.getByRole('table', { name: 'Calls, newest first' }).locator('tbody tr');
    expect(await row.count()).toBe(1);
    expect(await row.textContent()).toMatch(/demo\/echo.*2 attempts/s);
    await row.getByRole('link').first().click();
    await heading('Call');
    const attempts = page.getByRole('table', { name: 'Attempts', exact: true }).locator('tbody tr');
    expect(await attempts.allTextContents()).toEqual([expect.stringMatching(/demo\/fail-503.*503/s), expect.stringMatching(/demo\/echo/)]);

    await open('Overview');
    const spent = await exactSpend();
    expect(spent).toBeGreaterThan(0);
    await ask('And my invoice?');
    await page.reload();
    expect([await figure('Calls'), (await exactSpend()) > spent]).toEqual(['2', true]);
  });

  test('streams the responses of two models in the playground side by side', async () => {
    const bodies: Promise<string>[] = [];
    page.on('response', (response) => bodies.push(response.text().catch(() => '')));
    await open('Playground');
    await page.getByLabel('Model', { exact: true }).selectOption('demo/echo');
    await page.getByLabel('Compare with').selectOption('demo/long-20+stall-after-3');
    await page.getByLabel('Message').fill('Compare yourselves');
    await button('Run').click();
    const results = page.locator('.result');
    // The second response has sent three chunks and will never end, while the first one is complete.
    await results.nth(0).getByRole('link', { name: 'Show the call' }).waitFor();
    await results.nth(1).locator('.result-text', { hasText: /\w/ }).waitFor();
    expect(await results.nth(1).getAttribute('aria-busy')).toBe('true');
    await button('Stop').click();
    await results.nth(1).getByText('(stopped)').waitFor();

    const preview = page.waitForResponse((response) => response.url().endsWith('/playground/code'));
    await page.getByLabel('Compare with').selectOption('demo/long-40');
    await button('Run').click();
    await results.getByRole('link', { name: 'Show the call' }).nth(1).waitFor();
    const texts = await results.allTextContents();
    expect(texts).toEqual([
      expect.stringMatching(/Compare yourselves.*Cost\s*\$0\.\d*[1-9]/s),
      expect.stringMatching(/Cost\s*\$0\.\d*[1-9]/),
    ]);
    const received = await Promise.all(bodies);
    expect(received.length).toBeGreaterThan(5);
    expect(received.join('')).not.toMatch(/sk-gw-/);
    // If the next test left the page during this request, the browser would report an error.
    await preview;
    await page.locator('form.htmx-request').waitFor({ state: 'detached' });
  });

  test('saves memory settings', async () => {
    await open('Memory settings');
    await page.getByLabel('Batch of').fill('500');
    await button('Save').click();
    await page.getByText('The settings are saved.').waitFor();
    expect(await jsonOf(gateway.admin('GET', '/provision/teams/default/memory'))).toMatchObject({ batch_of: 500 });
  });

  test('recalls a memory again after it was rated wrong twice and then confirmed', async () => {
    const written = await jsonOf<{ id: string }>(gateway.call(key, '/v1/memory/items', { text: 'Prefers invoices as PDF.', subject }));
    for (const rating of ['wrong', 'wrong'])
      expect((await gateway.call(key, `/v1/memory/items/${written.id}/rating`, { rating })).ok).toBe(true);
    const inRecall = async () =>
      (
        await jsonOf<{ memories: { item: { in_recall: boolean } }[] }>(
          gateway.call(key, '/v1/memory/search', { query: 'invoices', subject }),
        )
      ).memories[0]?.item.in_recall;
    expect(await inRecall()).toBe(false);
    await open('Memory');
    await page.getByLabel('State').selectOption({ label: 'Left out of recall' });
    await button('Apply').click();
    await page.locator('main tbody tr').getByRole('link').first().click();
    await button('Confirm this memory').click();
    await page.getByText('Recall uses it again.').waitFor();
    await button('Pin this memory').click();
    await button('Unpin this memory').waitFor();
    expect(await inRecall()).toBe(true);
  });

  test('shows why a learning batch is failing and completes it after a replay', async () => {
    const failure = memoryVendor.fail('memories', 'Larvik', () => ({ status: 422, message: 'the vendor will not read this' }));
    expect((await say('I live in Larvik.')).status).toBe(200);
    await open('Conversations');
    await page.locator('main tbody tr').getByRole('link').first().click();
    await button('Remember').click();
    await heading('Batch');
    await untilShown('Failing');
    expect(await page.locator('.notice').textContent()).toContain('The vendor will not read this');
    failure.end();
    await button('Try now this batch').click();
    await page.getByText('The batch is being replayed.').waitFor();
    await untilShown('Done');
    await open('Memory');
    await page.getByRole('link', { name: 'I live in Larvik.' }).waitFor();
  });

  test("lets a project owner, but not a member, erase an end user's data", async () => {
    const people = new Map<string, Page>();
    for (const role of ['member', 'owner']) {
      await open('Members');
      await page.getByLabel('E-mail address').fill(`${role}@example.com`);
      await page.getByLabel('Role').selectOption(role);
      await button('Add').click();
      const link = await textOf(page.locator('main code', { hasText: '/console/sign-in/link?token=' }));
      const theirs = await watch(await chromium().newContext());
      await theirs.goto(link);
      await button('Sign in', theirs).click();
      await heading('Overview', theirs);
      people.set(role, theirs);
    }
    const [member, owner] = [people.get('member'), people.get('owner')];
    if (!member || !owner) throw new Error('both have signed in');
    expect(await member.getByRole('link', { name: 'Erase a subject' }).count()).toBe(0);
    const refused = await member.request.get(`${gateway.url}/console/p/default/erase?subject=${subject}`);
    expect([refused.status(), await refused.text()]).toEqual([403, expect.stringContaining('<h1>')]);

    await open('Erase a subject', owner);
    await owner.getByLabel('Subject').fill(subject);
    await owner.getByLabel('Subject').press('Enter');
    await owner.getByLabel(`Type ${subject} to confirm`).fill(subject);
    await button('Erase this subject', owner).click();
    await heading('Receipt of an erasure', owner);
    const [download] = await Promise.all([owner.waitForEvent('download'), owner.getByRole('link', { name: 'Download as JSON' }).click()]);
    expect(download.suggestedFilename()).toMatch(/^erasure-.*\.json$/);
    expect(await jsonOf(gateway.call(key, '/v1/memory/search', { query: 'invoices', subject }))).toMatchObject({ memories: [] });
    await open('Audit');
    expect(await page.locator('main table').textContent()).toMatch(/subject\.erase.*batch\.replay.*memory_item\.pin.*key\.issue/s);
    for (const theirs of people.values()) await theirs.context().close();
  });

  test('no page logs an error to the browser console', () => {
    expect(problems).toEqual([]);
  });
});
