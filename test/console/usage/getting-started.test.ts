/** Tests the page with the first steps in a new project. */
import { expect, test } from '@jest/globals';
import { sharedChromium } from '../../support/chromium.ts';
import { expectAccessible, type SignedIn, signIn } from '../../support/console.ts';
import { shareGateway } from '../../support/gateway.ts';

const shared = shareGateway({ database: 'any' });
const chromium = sharedChromium();
const titles = ['Allow a provider', 'Fill a tier', 'Create a key', 'Make the first call', 'See a failover', 'Give it a memory'];

/** Returns the titles of the steps that are done. */
async function doneSteps(person: SignedIn, path: string): Promise<string[]> {
  const response = await person.get(path);
  expect(response.status).toBe(200);
  const steps = [...(await response.text()).matchAll(/<h2>([^<]+)<span class="hidden">, (done|to do)</g)];
  expect(steps.map(([, title]) => title)).toEqual(titles);
  return steps.flatMap(([, title = '', state]) => (state === 'done' ? [title] : []));
}

test('shows the remaining setup steps in an empty project', async () => {
  const { withProject, admin } = shared();
  const gateway = await withProject('fresh');
  const owner = await signIn(gateway, 'owner');
  const path = '/console/p/fresh/getting-started';
  expect(await doneSteps(owner, '/console/p/fresh/overview')).toEqual(titles.slice(0, 3));
  await admin('PUT', '/provision/teams/fresh', { providers: [] });
  expect(await doneSteps(owner, path)).toEqual(['Create a key']);
  await admin('PUT', '/provision/teams/fresh', { providers: null, tiers: { standard: ['one/fail-500', 'two/echo'] } });
  const call = async (model: string) =>
    (await gateway.call('/v1/chat/completions', { model, messages: [{ role: 'user', content: 'hi' }] })).arrayBuffer();
  await call('two/echo');
  expect(await doneSteps(owner, path)).toEqual(titles.slice(0, 4));
  const overview = await (await owner.get('/console/p/fresh/overview')).text();
  expect(overview).toContain('4 of 6 steps to get started are done.');
  expect(overview).toContain(`<a href="${path}">See a failover</a>`);
  await call('standard');
  expect(await doneSteps(owner, path)).toEqual(titles.slice(0, 5));
  await (await gateway.call('/v1/memory/items', { text: 'The office is in Berlin' })).arrayBuffer();
  expect(await doneSteps(owner, path)).toEqual(titles);
  expect(await (await owner.get('/console/p/fresh/overview')).text()).not.toContain('steps to get started');
});

test("shows members the setup steps without the owner's buttons", async () => {
  const gateway = await shared().withProject('theirs');
  await shared().admin('PUT', '/provision/teams/theirs', { providers: [] });
  const path = '/console/p/theirs/getting-started';
  const text = await (await (await signIn(gateway, 'member')).get(path)).text();
  const steps = /<ol class="steps">.*<\/ol>/s.exec(text)?.[0] ?? '';
  expect(steps).toContain('Only an owner of the project can do this.');
  for (const page of ['/routing/edit', '/keys/new']) expect(steps).not.toContain(page);
  expect((await (await signIn(gateway, 'stranger')).get(path)).status).toBe(404);
});

test('hides the setup steps once a project is a month old', async () => {
  const gateway = await shared().withProject('older');
  const owner = await signIn(gateway, 'owner');
  await (await gateway.call('/v1/chat/completions', { model: 'one/echo', messages: [{ role: 'user', content: 'hi' }] })).arrayBuffer();
  const overview = async () => (await owner.get('/console/p/older/overview')).text();
  expect(await overview()).toContain('steps to get started are done');
  await gateway.database.query(`update projects set created_at = now() - interval '31 days' where slug = 'older'`);
  await shared().admin('PUT', '/provision/teams/older', { name: 'Older' });
  expect(await overview()).not.toContain('steps to get started are done');
});

test.each([
  ['light', 1280],
  ['dark', 390],
] as const)('the getting-started page is accessible (%s, %d pixels)', async (colorScheme, width) => {
  const gateway = await shared().withProject(`empty-${colorScheme}`);
  const context = await chromium().newContext({ colorScheme, viewport: { width, height: 900 } });
  await (await signIn(gateway, 'owner')).useIn(context);
  const page = await context.newPage();
  await page.goto(`${gateway.url}/console/p/empty-${colorScheme}/overview`);
  await expectAccessible(page);
  expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBeLessThanOrEqual(0);
  await page.getByRole('link', { name: 'Playground' }).last().click();
  await page.getByRole('heading', { name: 'Playground', level: 1 }).waitFor();
  await context.close();
});
