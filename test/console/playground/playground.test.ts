import { describe, expect, test } from '@jest/globals';
import { sharedChromium } from '../../support/chromium.ts';
import { expectAccessible, signIn } from '../../support/console.ts';
import { type CallRow, jsonOf, shareGateway } from '../../support/gateway.ts';
import { hostileText } from '../frame/sample-pages.ts';

const gateway = shareGateway({ database: 'any' });
const chromium = sharedChromium();

const path = '/console/p/acme/playground';
const message = { prompt: 'hello there', system: 'Be brief.', other: '', temperature: '', max_tokens: '' };

async function latestCalls(): Promise<readonly (CallRow & { readonly source: string })[]> {
  return (await jsonOf<{ data: readonly (CallRow & { readonly source: string })[] }>(gateway().admin('GET', '/provision/teams/acme/calls')))
    .data;
}

describe('playground', () => {
  test('shows both responses with the figures of their calls without JavaScript', async () => {
    const person = await signIn(gateway(), 'member');
    const response = await person.post(path, { ...message, model: 'one/echo', other: 'three/echo' });
    const text = await response.text();
    expect(response.status).toBe(200);
    expect(text.match(/You said: hello there/g)).toHaveLength(2);
    const calls = (await latestCalls()).slice(0, 2);
    expect(calls.map(({ source }) => source)).toEqual(['gateway-playground', 'gateway-playground']);
    for (const { id, cost } of calls) {
      expect(text).toContain(`/console/p/acme/calls/${id}`);
      expect(cost).toBeGreaterThan(0);
    }
  });

  test('streams the response and then its figures, and audits the person and model but not the text', async () => {
    const person = await signIn(gateway(), 'member');
    const response = await person.post(`${path}/stream`, { ...message, model: 'one/long-20+pace-3' });
    expect(response.headers.get('content-type')).toBe('text/event-stream');
    const events = (await response.text()).split('\n\n').filter((block) => block !== '');
    expect(events.length).toBeGreaterThan(5);
    expect(events.slice(0, -1).every((block) => block.startsWith('event: text\n'))).toBe(true);
    expect(events.at(-1)).toMatch(/^event: end\ndata: \{"error":null,"figures":\[\["Model","one\/long-20\+pace-3"\],\["Latency"/);
    const [row] = await gateway().database.query<{ action: string; outcome: string; detail: unknown }>(
      'select action, outcome, detail from audit_log where person_id = $1::uuid',
      [person.personId],
    );
    expect(row).toEqual({ action: 'playground.run', outcome: 'ok', detail: { models: ['one/long-20+pace-3'] } });
  });

  test("applies the application's ceilings and shows the reason", async () => {
    const { app, withProject } = gateway();
    const limited = await withProject('limited');
    const project = await app.projects.findBySlug('limited');
    await app.projects.applications.put(project?.id ?? '', 'gateway-playground', { ceilings: { calls: 1 } });
    const person = await signIn(limited, 'member');
    const run = async () => (await person.post('/console/p/limited/playground', { ...message, model: 'one/echo' })).text();
    expect(await run()).toContain('You said: hello there');
    expect(await run()).toContain('Source budget exceeded for &#39;gateway-playground&#39; (calls).');
  });

  test('shows why a model failed next to the other response', async () => {
    const person = await signIn(gateway(), 'member');
    const text = await (await person.post(path, { ...message, model: 'one/fail-500', other: 'one/break-after-2' })).text();
    expect(text).toContain('the vendor responded with 500');
    expect(text).toContain('The response ended before it was complete.');
  });

  test.each([
    [{ prompt: ' ' }, 'The message must not be empty.'],
    [{ temperature: '3' }, 'Temperature must be a number from 0 to 2.'],
    [{ max_tokens: '1.5' }, 'Max tokens must be a positive whole number.'],
    [{ model: '' }, 'Choose a model.'],
  ])('returns 422 for %j and keeps the input', async (change, problem) => {
    const person = await signIn(gateway(), 'member');
    const response = await person.post(path, { ...message, model: 'one/echo', system: 'Be brief.', ...change });
    expect(response.status).toBe(422);
    const text = await response.text();
    expect(text).toContain(problem);
    expect(text).toContain('Be brief.');
  });

  test('returns 404 for a stranger without calling a model', async () => {
    const person = await signIn(gateway(), 'stranger');
    expect((await person.post(`${path}/stream`, { ...message, model: 'one/echo' })).status).toBe(404);
    expect((await person.get(path)).status).toBe(404);
  });

  test('streams two models side by side in a browser, escapes hostile text and updates the code with the form', async () => {
    const context = await chromium().newContext();
    const page = await context.newPage();
    const problems: string[] = [];
    page.on('console', (entry) => entry.type() === 'error' && problems.push(entry.text()));
    await (await signIn(gateway(), 'member')).useIn(context);
    await page.goto(gateway().url + path);
    await page.getByLabel('Model', { exact: true }).selectOption('one/echo');
    await page.getByLabel('Compare with').selectOption('four/echo');
    await page.getByLabel('Message').fill(hostileText);
    await page.getByLabel('Message').press('Control+Enter');
    await page.getByRole('link', { name: 'Show the call' }).nth(1).waitFor();
    const texts = await page.locator('.result-text').allTextContents();
    expect(texts).toEqual([`You said: ${hostileText}`, `You said: ${hostileText}`]);
    await page.locator('#code').getByText('document.title').first().waitFor();
    expect(await page.title()).toBe('Playground · acme · Gateway');
    await expectAccessible(page);
    expect(problems).toEqual([]);
    await context.close();
  });
});
