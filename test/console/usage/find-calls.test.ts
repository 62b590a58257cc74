/**
 * Tests how people find a call, learn why it failed and repeat it, and that the gateway's own calls don't get in the
 * way.
 */
import { beforeAll, expect, test } from '@jest/globals';
import { memoryApplication } from '../../../src/core/call.ts';
import { newId } from '../../../src/core/ids.ts';
import { storeCalls } from '../../../src/usage/store-calls.ts';
import { type CallChanges, settledCall } from '../../journal/calls.ts';
import { sharedChromium } from '../../support/chromium.ts';
import { expectAccessible, type SignedIn, signIn } from '../../support/console.ts';
import { jsonOf, shareGateway } from '../../support/gateway.ts';

const gateway = shareGateway({ database: 'any' });
const chromium = sharedChromium();
const noCorrelation = settledCall().metadata.correlation;
const ids = { slow: '', dear: '', own: '', broken: '' };
let member: SignedIn;

beforeAll(async () => {
  const { app, database } = gateway();
  const { project } = await app.projects.put('acme', {});
  member = await signIn(gateway(), 'member');
  const now = Date.now();
  const call = (age: number, { metadata = {}, ...changes }: CallChanges = {}) =>
    settledCall({ ...changes, metadata: { projectId: project.id, id: newId(now - age), startedAt: now - age, ...metadata } });
  const user = { mode: 'write', explicitWrite: false, subject: 'user 7' } as const;
  const slow = call(9_000, {
    metadata: { source: 'web', memory: user, correlation: { ...noCorrelation, taskId: 'ticket-9' } },
    result: { durationMs: 45_000 },
  });
  const dear = call(8_000, { metadata: { source: 'batch' }, result: { costNanos: 2_500_000_000, model: 'two/large' } });
  const broken = call(7_000, {
    metadata: { source: 'web', stream: true },
    result: {
      outcome: 'interrupted',
      code: 'upstream_failed',
      tokens: { input: 10, cachedInput: 0, cacheWrite: 0, cacheWrite1h: 0, output: 2 },
    },
  });
  const own = Array.from({ length: 3 }, (_, index) =>
    call(6_000 + index, { metadata: { source: memoryApplication }, result: { costNanos: 40_000_000 } }),
  );
  Object.assign(ids, { slow: slow.metadata.id, dear: dear.metadata.id, own: own[0]?.metadata.id ?? '', broken: broken.metadata.id });
  await database.transaction((tx) => storeCalls(tx, [slow, dear, broken, ...own]));
});

const get = (path: string): Promise<Response> => member.get(`/console/p/acme${path}`);
async function textOf(path: string): Promise<string> {
  const response = await get(path);
  expect([path, response.status]).toEqual([path, 200]);
  return toText(await response.text());
}
const toText = (page: string): string =>
  (page.split('<main')[1] ?? page)
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll('&lt;', '<')
    .replaceAll('&#39;', "'")
    .replaceAll('&quot;', '"')
    .replaceAll(/\s+/g, ' ');
async function listedBy(query: string): Promise<string[]> {
  const page = await (await get(`/calls?${query}`)).text();
  return [...page.matchAll(/row-link" href="[^"]*\/calls\/([0-9a-f-]{36})"/g)].map((match) => match[1] ?? '');
}
async function locationOf(path: string): Promise<string> {
  return (await get(path)).headers.get('location') ?? '';
}

test("hides the gateway's internal calls by default", async () => {
  expect(await listedBy('')).toEqual([ids.broken, ids.dear, ids.slow]);
  const list = await textOf('/calls');
  expect(list).toContain('3 calls, 1 error, $2.50');
  expect(list).toContain('Not included: 3 of the gateway’s own calls for memory, which cost $0.12.');
  expect(await listedBy('own=show')).toHaveLength(6);
  expect(await listedBy(`source=${memoryApplication}`)).toHaveLength(3);
  for (const path of ['/overview', '/explore'])
    expect(await textOf(path)).toContain('3 of the gateway’s own calls for memory, which cost $0.12');
  expect(await textOf('/overview')).toContain('Spend $2.50 ');
  const csv = await (await get('/calls.csv')).text();
  expect(csv.trimEnd().split('\r\n')).toHaveLength(4);
  expect(await textOf('/explore?own=show&group=source')).toContain(memoryApplication);
});

test('counts calls from applications that use the name reserved for internal calls', async () => {
  const elsewhere = await gateway().withProject('forged');
  const headers = { 'x-gateway-source': memoryApplication, 'x-gateway-task-id': 'forged' };
  const body = { model: 'one/echo', messages: [{ role: 'user', content: 'hi' }] };
  await (await elsewhere.call('/v1/chat/completions', body, headers)).arrayBuffer();
  const person = await signIn(elsewhere, 'member');
  const page = toText(await (await person.get('/console/p/forged/explore?group=task&metric=calls')).text());
  expect(page).toMatch(/Totals of the period Task Share Calls Errors Cost forged 100% 1 0 \S+ \S+ Total 1 0/);
  expect(page).not.toContain('Not included');
});

test('filters the list of calls by end user, latency and cost', async () => {
  expect(await listedBy(`subject=${encodeURIComponent('user 7')}`)).toEqual([ids.slow]);
  expect(await listedBy('min_ms=1000')).toEqual([ids.slow]);
  expect(await listedBy('max_ms=1000')).toEqual([ids.broken, ids.dear]);
  expect(await listedBy('min_cost=0.5&max_cost=3')).toEqual([ids.dear]);
  expect(await listedBy('not_source=web')).toEqual([ids.dear]);
  expect(await listedBy('not_model=two/large&not_code=upstream_failed')).toEqual([ids.slow]);
  expect(await listedBy('not_status=2xx')).toEqual([]);
  for (const query of ['min_ms=x', 'max_cost=-1', 'not_status=9', 'own=maybe'])
    expect([query, (await get(`/calls?${query}`)).status]).toEqual([query, 400]);
  const filtered = await textOf('/calls?source=web&min_ms=5');
  expect(filtered).toContain('Application: web Leave out (Application is not web)');
  expect(filtered).toContain('Latency of at least: 5 ms');
});

test('finds a call by id, task, end user or vendor request id', async () => {
  const { call, admin } = gateway();
  const response = await call('/v1/chat/completions', { model: 'one/echo', messages: [{ role: 'user', content: 'hi' }] });
  const id = response.headers.get('x-gateway-call-id') ?? '';
  await response.arrayBuffer();
  const { data } = await jsonOf<{ data: { id: string; attempts: { request_id: string | null }[] }[] }>(
    admin('GET', '/provision/teams/acme/calls?limit=1'),
  );
  const requestId = data[0]?.attempts[0]?.request_id ?? '';
  expect([data[0]?.id, requestId]).toEqual([id, expect.stringMatching(/\S/)]);
  expect(await locationOf(`/find?q=${id}`)).toBe(`/console/p/acme/calls/${id}`);
  expect(await locationOf(`/find?q=${encodeURIComponent(requestId)}`)).toBe(`/console/p/acme/calls/${id}`);
  expect(await locationOf('/find?q=ticket-9')).toMatch(/\/calls\?from=.*&task=ticket-9$/);
  expect(await locationOf('/find?q=user+7')).toBe('/console/p/acme/end-users/user%207');
  expect(await textOf('/find?q=no-such-thing')).toContain('Nothing found');
  expect(await textOf('/find?q=explore')).toContain('Explore Usage');
  expect(await textOf(`/calls/${id}`)).toContain(requestId);
  const refused = await call('/v1/chat/completions', { model: 'no-such-model', messages: [{ role: 'user', content: 'hi' }] });
  expect(refused.status).toBe(400);
  await refused.arrayBuffer();
  const refusedId = refused.headers.get('x-gateway-call-id') ?? '';
  expect(await locationOf(`/find?q=${refusedId}`)).toBe(`/console/p/acme/calls/${refusedId}`);
  expect(toText(await (await get(`/find/results?q=${refusedId}`)).text())).toContain('Refused call');
  const found = (query: string) => jsonOf<{ data: { id: string }[] }>(admin('GET', `/provision/teams/acme/calls?${query}`));
  expect((await found(`request_id=${encodeURIComponent(requestId)}`)).data.map((each) => each.id)).toEqual([id]);
  expect((await found('subject=user%207')).data.map((each) => each.id)).toEqual([ids.slow]);
  expect((await found('hide_own=true')).data).toHaveLength(4);
  expect((await found('hide_own=false')).data).toHaveLength(7);
  const other = await signIn(await gateway().withProject('other'), 'owner');
  for (const text of [id, requestId, refusedId, 'ticket-9', 'user 7'])
    expect(toText(await (await other.get(`/console/p/other/find?q=${encodeURIComponent(text)}`)).text())).toContain('Nothing found');
});

test('shows a sentence that explains how a call ended', async () => {
  const broken = await textOf(`/calls/${ids.broken}`);
  expect(broken).toMatch(/Call of openai\/gpt-4o at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d/);
  expect(broken).toContain('The stream broke off after 2 tokens. upstream_failed');
  const response = await gateway().call('/v1/chat/completions', { model: 'one/fail-500', messages: [{ role: 'user', content: 'hi' }] });
  await response.arrayBuffer();
  const page = await textOf(`/calls/${response.headers.get('x-gateway-call-id')}`);
  expect(page).toContain('one/fail-500 failed. The caller received 502.');
  expect(page).toMatch(/The vendor responded with an error \(500\) .* Request id at the vendor: \S+/);
  expect(page.indexOf('Why attempts failed')).toBeLessThan(page.indexOf('Prompt and response'));
  expect(page.indexOf('Prompt and response')).toBeLessThan(page.indexOf('Plan'));
});

test("shows a call's parameters, prompt and tools, and a curl command", async () => {
  const tool = { type: 'function', function: { name: 'find_order', parameters: { type: 'object', properties: {} } } };
  const messages = [
    { role: 'system', content: "Be brief, it's late" },
    { role: 'user', content: 'Where is my order?' },
    { role: 'assistant', content: null, tool_calls: [{ id: 'c1', type: 'function', function: { name: 'find_order', arguments: '{}' } }] },
    { role: 'tool', tool_call_id: 'c1', content: 'in Bremen' },
  ];
  const body = { model: 'one/echo', temperature: 0.2, max_tokens: 50, tools: [tool], messages };
  const response = await gateway().call('/v1/chat/completions', body);
  await response.arrayBuffer();
  const path = `/calls/${response.headers.get('x-gateway-call-id')}`;
  expect(await textOf(path)).not.toContain('Where is my order?');
  const page = await textOf(`${path}?text=1`);
  for (const part of ['temperature 0.2', "System prompt Be brief, it's late", '1 tool: find_order', 'User Where is my order?', 'in Bremen'])
    expect(page).toContain(part);
  const [, curl = ''] = /(curl 'http.*?)Copy/.exec(page) ?? [];
  expect(curl).toContain('/v1/chat/completions');
  const [, sent = ''] = /-d '(.*)'/.exec(curl.replaceAll(`'\\''`, '’')) ?? [];
  const made = [{ ...messages[2], tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'find_order', arguments: '{}' } }] }];
  expect(JSON.parse(sent)).toEqual({
    ...body,
    messages: [
      { role: 'system', content: 'Be brief, it’s late' },
      messages[1],
      ...made,
      { role: 'tool', tool_call_id: 'call_1', content: 'in Bremen' },
    ],
  });
});

test("says if a call's texts are truncated and if its request set no parameters", async () => {
  const open = async (messages: readonly object[]): Promise<string> => {
    const response = await gateway().call('/v1/chat/completions', { model: 'one/echo', messages });
    await response.arrayBuffer();
    return textOf(`/calls/${response.headers.get('x-gateway-call-id')}?text=1`);
  };
  const short = await open([{ role: 'user', content: '😀'.repeat(15_000) }]);
  expect(short).toContain('The request set no parameters.');
  expect(short).toContain('Put a virtual key into GATEWAY_KEY.');
  expect(short).not.toContain('Showing the first');
  const long = await open([
    { role: 'system', content: 'rule '.repeat(5_000) },
    { role: 'user', content: '😀'.repeat(20_001) },
  ]);
  expect(long).toContain('Showing the first 20,000 of 20,001 characters.');
  expect(long).toMatch(/System prompt (rule )+Copy Only the beginning is shown\./);
  expect(long).toContain('The request is not complete: attachments are not stored, and long texts are cut off.');
});

test('opens a call by its id with Ctrl+K', async () => {
  const context = await chromium().newContext();
  await member.useIn(context);
  const page = await context.newPage();
  const problems: string[] = [];
  page.on('pageerror', (error) => problems.push(error.message));
  page.on('console', (message) => message.type() === 'error' && problems.push(message.text()));
  await page.goto(`${gateway().url}/console/p/acme/keys`);
  await page.keyboard.press('Control+K');
  const palette = page.getByRole('dialog', { name: 'Search' });
  await palette.getByRole('link', { name: /^Explore/ }).waitFor();
  await page.keyboard.type('no such name');
  await palette.getByText('This project has no call').waitFor();
  await expectAccessible(page);
  await palette.getByRole('searchbox').fill(ids.dear);
  await palette.getByRole('link', { name: 'Call of two/large' }).waitFor();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Call of two/large', level: 1 }).waitFor();
  await page.keyboard.press('Control+K');
  await page.keyboard.press('Escape');
  await palette.waitFor({ state: 'hidden' });
  expect(problems).toEqual([]);
  await context.close();
});
