/**
 * Tests that people can't break routing by accident. This covers the forms for tiers, their validation, and the
 * warnings on pages.
 */
import { beforeAll, describe, expect, test } from '@jest/globals';
import type { Page } from 'playwright-core';
import { sharedChromium } from '../support/chromium.ts';
import { type SignedIn, signIn } from '../support/console.ts';
import { defaultYaml, jsonOf, shareGateway } from '../support/gateway.ts';

const gateway = shareGateway({ database: 'any', yaml: (vendorUrl, deadUrl) => defaultYaml(vendorUrl, deadUrl) });
const browser = sharedChromium();
const path = '/console/p/acme';
let owner: SignedIn;
let member: SignedIn;

beforeAll(async () => {
  [owner, member] = await Promise.all([signIn(gateway(), 'owner'), signIn(gateway(), 'member')]);
});

const settingsOf = async () => (await gateway().app.projects.findBySlug('acme'))?.settings;
const reset = () => gateway().admin('PUT', '/provision/teams/acme', { tiers: {}, providers: null, retired: [], catalog_fill: false });

/** Opens a page as the owner, with or without JavaScript. */
async function open(url: string, options: { javaScriptEnabled?: boolean } = {}): Promise<{ page: Page; close: () => Promise<void> }> {
  const context = await browser().newContext({ baseURL: gateway().url, ...options });
  await owner.useIn(context);
  const page = await context.newPage();
  await page.goto(url);
  return { page, close: () => context.close() };
}

const press = (page: Page, name: string | RegExp) => page.getByRole('button', { name }).first().click();
const save = (page: Page) => page.locator('.form-actions button').click();
const tierName = (page: Page, row: number) => page.getByRole('textbox', { name: `Tier ${row}`, exact: true });
const modelsOf = (page: Page, tier: string): Promise<string[]> =>
  page
    .getByRole('list', { name: `Models of tier ${tier}` })
    .locator('input')
    .evaluateAll((inputs) => inputs.map((input) => String(Reflect.get(input, 'value'))).filter((value) => value !== ''));

describe.each([{ javaScriptEnabled: true }, { javaScriptEnabled: false }])('with the browser options %j', (options) => {
  test('copies a tier from gateway.yaml into the routing form, reorders it and saves it', async () => {
    await reset();
    const { page, close } = await open(`${path}/routing/edit`, options);
    await press(page, 'Copy tier standard');
    expect(await modelsOf(page, 'standard')).toEqual(['one/echo', 'two/echo', 'three/echo', 'four/echo']);
    await press(page, 'Move model 2 of tier standard up');
    await press(page, 'Remove model 4 of tier standard');
    await press(page, 'Move model 1 of tier standard down');
    await press(page, 'Move model 1 of tier standard down');
    expect(await modelsOf(page, 'standard')).toEqual(['two/echo', 'one/echo', 'three/echo']);
    await page.getByLabel('Model 4 of tier standard').fill('four/echo');
    await press(page, 'Add a model to tier standard');
    await press(page, 'Add a tier to tiers for text');
    await tierName(page, 2).fill('small');
    await page.getByLabel(/Model 1 of tier (?:2|small)/).fill('two/echo');
    await save(page);
    await page.getByText('Saved.').waitFor();
    expect((await settingsOf())?.tiers).toEqual({ standard: ['two/echo', 'one/echo', 'three/echo', 'four/echo'], small: ['two/echo'] });
    expect(await page.getByRole('row', { name: /^standard text/ }).textContent()).toContain('instead of the configuration file:');
    await close();
  });

  test("rejects a model of an unknown provider and keeps the form's values", async () => {
    await reset();
    const { page, close } = await open(`${path}/routing/edit`, options);
    await press(page, 'Copy tier standard');
    await page.getByLabel('Model 2 of tier standard').fill('thre/echo');
    await save(page);
    await page.getByText('Nothing was saved: no provider named thre is configured; did you mean three?').waitFor();
    const field = page.getByLabel('Model 2 of tier standard');
    expect([await field.inputValue(), await field.getAttribute('aria-invalid')]).toEqual(['thre/echo', 'true']);
    expect(await page.locator(`[id="${await field.getAttribute('aria-describedby')}"]`).textContent()).toBe(
      'No provider named thre is configured; did you mean three?',
    );
    expect((await settingsOf())?.tiers).toEqual({});
    await close();
  });
});

test('saves an unknown model only after the user confirms the warning', async () => {
  await reset();
  const { page, close } = await open(`${path}/routing/edit`);
  await press(page, 'Add a tier to tiers for text');
  await tierName(page, 1).fill('new');
  await page.getByLabel('Model 1 of tier 1').fill('one/ehco');
  await page.getByLabel('Allowed providers').selectOption('Only the selected ones');
  await page.getByLabel('two', { exact: true }).check();
  await save(page);
  const warning = page.getByText('Check what this change does').locator('..');
  await warning.waitFor();
  expect(await warning.textContent()).toContain('The catalog has no model one/ehco, so its price and its limits are unknown');
  expect(await warning.textContent()).toContain('The project could not use any model in the tier new, so calls to it would be refused.');
  await page.getByLabel('Save it anyway').check();
  // This adds a warning that nobody has read yet.
  await page.getByLabel('two', { exact: true }).uncheck();
  await page.getByLabel('dead', { exact: true }).check();
  await page.getByLabel('Model 1 of tier new').fill('dead/x');
  await save(page);
  await page.getByText('The catalog has no model dead/x').waitFor();
  expect((await settingsOf())?.tiers).toEqual({});
  await page.getByLabel('Save it anyway').check();
  await save(page);
  await page.getByText('Saved.').waitFor();
  expect((await settingsOf())?.tiers).toEqual({ new: ['dead/x'] });
  const text = (await page.getByRole('main').textContent()) ?? '';
  expect(text).toContain('A tier has no usable model');
  expect(text).toContain('standard: the project can use none of their models');
  expect(text).toContain('one/echo provider not allowed');
  expect(text).toContain('dead/x not in the catalog');
  await close();
  await reset();
});

test('shows a tier that is named `constructor`', async () => {
  const saved = await gateway().admin('PUT', '/provision/teams/acme', { tiers: { constructor: ['two/echo'] } });
  expect(saved.status).toBe(200);
  const page = await member.get(`${path}/routing`);
  const html = await page.text();
  expect(page.status).toBe(200);
  expect(html).toContain('<code>constructor</code>');
  expect(html).not.toContain('instead of the configuration file:');
  await reset();
});

test("validates an application's tiers the same way as a project's", async () => {
  await reset();
  const url = `${path}/applications/application?${new URLSearchParams({ name: 'a b' })}`;
  const { page, close } = await open(url);
  await page.getByText('Tiers for text', { exact: true }).first().click();
  await press(page, 'Copy tier standard');
  await page.getByLabel('Model 1 of tier standard').fill('nope/echo');
  await save(page);
  await page.getByText('Nothing was saved: no provider named nope is configured').waitFor();
  await page.getByLabel('Model 1 of tier standard').fill('two/echo');
  await press(page, 'Move model 3 of tier standard up');
  await save(page);
  await page.getByText('Saved.').waitFor();
  expect((await settingsOf())?.applications.get('a b')?.tiers).toEqual({
    standard: ['two/echo', 'three/echo', 'two/echo', 'four/echo'],
  });
  await close();
});

test('lets only project owners rearrange the models in a tier', async () => {
  for (const action of ['routing/edit/arrange', 'applications/new/arrange', 'applications/application/arrange']) {
    expect((await member.post(`${path}/${action}`, { arrange: 'add-tier:tiers' })).status).toBe(403);
    expect((await owner.post(`${path}/${action}?name=x`, { csrf: 'wrong' })).status).toBe(403);
  }
  const read = JSON.stringify({});
  const form = { read, allowed: 'all', retired: '', catalog_fill: 'configured', 'tiers.0.name': 'a', 'tiers.0.models': 'one/echo' };
  for (const arrange of ['up:tiers:0:0', 'down:tiers:0:9', 'up:tiers:7:1', 'copy:tiers:__proto__', 'copy:nothing:x', 'x', ':::', '']) {
    const page = await (await owner.post(`${path}/routing/edit/arrange`, { ...form, arrange })).text();
    expect(page).toContain('value="one/echo" placeholder');
  }
});

test('the API accepts tiers with unknown models but returns warnings', async () => {
  const { admin } = gateway();
  const project = await admin('PUT', '/provision/teams/warned', { tiers: { fast: ['opnai/gpt', 'one/unlisted'] }, catalog_fill: false });
  expect([project.status, await project.json()]).toMatchObject([
    201,
    {
      tiers: { fast: ['opnai/gpt', 'one/unlisted'] },
      warnings: [
        { path: 'tiers.fast.0', message: 'no provider named opnai is configured' },
        { path: 'tiers.fast.1', message: expect.stringContaining('the catalog has no model one/unlisted') },
      ],
    },
  ]);
  const again = await jsonOf<{ warnings: unknown[] }>(admin('PUT', '/provision/teams/warned', { name: 'Warned' }));
  expect(again.warnings).toEqual([]);
  const application = await jsonOf<{ warnings: unknown[] }>(
    admin('PUT', '/provision/teams/warned/applications/bot', { tiers: { standard: [] } }),
  );
  expect(application.warnings).toEqual([
    { path: 'tiers.standard', message: 'the project could not use any model in the tier standard, so calls to it would be refused' },
  ]);
});
