/** Tests personal tokens in a browser, from the account page to their use at `/mcp`. */
import { expect, test } from '@jest/globals';
import { addPerson, callTool, issueToken, withClient } from '../../mcp/people.ts';
import { sharedChromium } from '../../support/chromium.ts';
import { expectAccessible, signIn } from '../../support/console.ts';
import { shareGateway } from '../../support/gateway.ts';

const shared = shareGateway({ database: 'any' });
const chromium = sharedChromium();

test.each([
  ['light', 1280],
  ['dark', 390],
] as const)('creates and revokes a personal token with the keyboard alone (%s, %d pixels)', async (colorScheme, width) => {
  const gateway = shared();
  const person = await signIn(gateway, 'member');
  const context = await chromium().newContext({ colorScheme, viewport: { width, height: 900 } });
  await person.useIn(context);
  const page = await context.newPage();
  await page.goto(`${gateway.url}/console/account`);
  await expectAccessible(page);
  await page.getByRole('link', { name: 'New token' }).press('Enter');
  await page.getByLabel('Name').fill('Laptop <b>');
  await page.getByLabel('memory:read').press('Space');
  await expectAccessible(page);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Your new token' }).waitFor();
  await expectAccessible(page);
  expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBeLessThanOrEqual(0);
  const token = (await page.getByRole('region', { name: 'Token', exact: true }).textContent()) ?? '';
  expect(token).toMatch(/^gwp_[0-9a-f]{12}_[\w-]{43}$/);
  expect(await page.content()).toContain(`claude mcp add --transport http gateway ${gateway.url}/mcp`);
  await withClient(gateway, { token }, (client) => callTool(client, 'gateway_read_memory_settings'));

  await page.getByRole('link', { name: 'Done' }).press('Enter');
  await page.getByRole('heading', { name: 'Personal tokens' }).waitFor();
  const content = await page.content();
  expect(content).toContain('Laptop &lt;b&gt;');
  expect([content.includes(token), content.includes('settings:read, memory:read, usage:read')]).toEqual([false, true]);
  await page.getByRole('button', { name: 'Revoke token Laptop <b>' }).press('Enter');
  await page.getByText('The token Laptop <b> was revoked.').waitFor();
  await expect(withClient(gateway, { token }, async () => undefined)).rejects.toThrow();
  await context.close();

  const rows = await gateway.database.query(
    `select action, outcome, detail ->> 'name' as name from audit_log where person_id = $1::uuid order by id`,
    [person.personId],
  );
  expect(rows).toEqual([
    { action: 'token.create', outcome: 'ok', name: 'Laptop <b>' },
    { action: 'token.revoke', outcome: 'ok', name: 'Laptop <b>' },
  ]);
});

test("returns 422 and explains why a personal token can't be created", async () => {
  const person = await signIn(shared(), 'stranger');
  const create = async (fields: Record<string, string>) => {
    const response = await person.post('/console/account/tokens', { name: 'CI job', scopes: 'usage:read', days: '30', ...fields });
    return [response.status, await response.text()] as const;
  };
  expect(await create({ name: ' ' })).toEqual([422, expect.stringContaining('Name: must not be empty.')]);
  expect(await create({ scopes: 'admin' })).toEqual([422, expect.stringContaining('value="CI job"')]);
  expect(await create({ days: '91' })).toEqual([422, expect.stringContaining('Expires after: must be at most 90.')]);
  expect(await (await person.get('/console/account')).text()).toContain('Create a token to use the gateway from');
});

test("returns 404 when somebody revokes another person's token", async () => {
  const gateway = shared();
  const other = await addPerson(gateway, []);
  const token = await issueToken(gateway, other);
  const [row] = await gateway.database.query<{ id: string }>('select id from personal_tokens where person_id = $1::uuid', [other.id]);
  const response = await (await signIn(gateway, 'admin')).post(`/console/account/tokens/${row?.id}/revoke`);
  expect(response.status).toBe(404);
  await withClient(gateway, { token }, (client) => client.listTools());
});
