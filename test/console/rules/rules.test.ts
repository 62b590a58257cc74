/** Tests the pages about content rules. There's a row for each rule, with its hits and the calls behind them. */
import { beforeAll, beforeEach, expect, test } from '@jest/globals';
import { type SignedIn, signIn } from '../../support/console.ts';
import { jsonOf, shareGateway } from '../../support/gateway.ts';
import { decodeEntities, hiddenValue, textOf } from '../../support/page-text.ts';

const gateway = shareGateway({ database: 'any' });
const path = '/console/p/acme';
const api = '/provision/teams/acme/rules';
let owner: SignedIn;
let member: SignedIn;

beforeAll(async () => {
  [owner, member] = await Promise.all([signIn(gateway(), 'owner'), signIn(gateway(), 'member')]);
});
beforeEach(async () => {
  await gateway().admin('PUT', api, { rules: [] });
});

const rulesOf = async (): Promise<unknown> => (await jsonOf<{ rules: unknown }>(gateway().admin('GET', api))).rules;

/** Returns the row of the first rule that contains the text. */
async function rowWith(text: string, person = owner): Promise<string> {
  const page = decodeEntities(await (await person.get(`${path}/rules`)).text());
  return page.split('<tr').find((row) => row.includes(text)) ?? '';
}

const pathOf = (row: string, page: string): string => new RegExp(`"(${path}/rules/[0-9a-f]{16}/${page})"`).exec(row)?.[1] ?? '';

async function call(text: string): Promise<{ status: number; id: string }> {
  const response = await gateway().call('/v1/chat/completions', { model: 'one/echo', messages: [{ role: 'user', content: text }] });
  await response.arrayBuffer();
  return { status: response.status, id: response.headers.get('x-gateway-call-id') ?? '' };
}

test('adds, edits and removes a content rule and undoes the removal', async () => {
  expect(await textOf(owner.get(`${path}/rules`))).toContain('No content rules yet');
  const add = (fields: Record<string, string>) =>
    owner.post(`${path}/rules`, { place: 'input', action: 'block', expression: '', ...fields });
  expect((await add({ class: 'email', action: 'observe' })).status).toBe(303);
  expect((await add({ class: 'expression', expression: ' Falcon+ ' })).status).toBe(303);
  expect((await add({ class: 'iban' })).status).toBe(303);
  const falcon = { class: 'expression', place: 'input', action: 'block', expression: ' Falcon+ ' };
  expect(await rulesOf()).toEqual([
    { class: 'email', place: 'input', action: 'observe' },
    falcon,
    { class: 'iban', place: 'input', action: 'block' },
  ]);

  const editPath = pathOf(await rowWith('Falcon'), 'edit');
  const opened = await (await owner.get(editPath)).text();
  const form = { ...falcon, read: hiddenValue(opened, 'read') };
  expect(opened).toMatch(/name="expression"[^>]*value=" Falcon\+ "/);
  expect((await owner.post(editPath, form)).headers.get('location')).toBe(`${path}/rules`);
  expect((await owner.post(editPath, { ...form, action: 'observe' })).status).toBe(303);
  expect(await rowWith('Falcon')).toContain('observes');

  const removed = await owner.post(pathOf(await rowWith('Falcon'), 'remove'));
  expect(await rulesOf()).toHaveLength(2);
  const cookies = [owner.cookie, ...removed.headers.getSetCookie().map((cookie) => cookie.split(';')[0])].join('; ');
  const page = await (await fetch(`${gateway().url}${path}/rules`, { headers: { cookie: cookies } })).text();
  expect(page).toContain('The rule is removed: Expression  Falcon+  in the input.');
  const names = ['class', 'place', 'action', 'expression', 'position'];
  await owner.post(`${path}/rules`, Object.fromEntries(names.map((name) => [name, hiddenValue(page, name)])));
  expect((await rulesOf()) as object[]).toMatchObject([{ class: 'email' }, { ...falcon, action: 'observe' }, { class: 'iban' }]);
});

test('keeps an invalid expression in the form and rejects duplicate rules', async () => {
  const form = { class: 'expression', place: 'input', action: 'block', expression: '(; x' };
  expect(await textOf(owner.post(`${path}/rules`, form), 422)).toMatch(
    /name="expression"[^>]*value="\(; x"[^>]*aria-invalid="true"[^>]*>.*Is not a valid RE2 expression/,
  );
  await owner.post(`${path}/rules`, { ...form, expression: 'x+' });
  expect(await textOf(owner.post(`${path}/rules`, { ...form, expression: 'x+', action: 'observe' }), 422)).toContain(
    'There is already a rule with this class or expression for this place',
  );
  await gateway().admin('PUT', api, { rules: Array.from({ length: 50 }, (_, index) => ({ ...form, expression: `x${index}` })) });
  expect(await textOf(owner.post(`${path}/rules`, { ...form, expression: 'y' }), 422)).toContain('at most 50 rules');
});

test('warns before overwriting a rule that somebody else has just changed', async () => {
  await gateway().admin('PUT', api, { rules: [{ class: 'email', place: 'input', action: 'observe' }] });
  const editPath = pathOf(await rowWith('E-mail address'), 'edit');
  const read = hiddenValue(await (await owner.get(editPath)).text(), 'read');
  const form = { class: 'email', place: 'input', action: 'block', expression: '', read };
  await owner.post(editPath, form);
  const overtaken = await owner.post(editPath, { ...form, read, action: 'block' });
  const page = await overtaken.text();
  expect([overtaken.status, page.includes('Someone else saved these settings')]).toEqual([422, true]);
  expect(page).toContain('Action: was <code>observe</code>, is now <code>block</code>');
  await gateway().admin('PUT', api, { rules: [] });
  expect((await owner.post(editPath, form)).status).toBe(404);
});

test('lets only project owners change content rules', async () => {
  await gateway().admin('PUT', api, { rules: [{ class: 'email', place: 'input', action: 'observe' }] });
  const row = await rowWith('E-mail address');
  const [edit, remove] = [pathOf(row, 'edit'), pathOf(row, 'remove')];
  expect(await rowWith('E-mail address', member)).not.toContain('Remove');
  for (const page of [`${path}/rules/new`, edit]) expect((await member.get(page)).status).toBe(403);
  for (const action of [`${path}/rules`, edit, remove]) expect((await member.post(action, { class: 'iban' })).status).toBe(403);
  expect(await rulesOf()).toHaveLength(1);
});

test("counts a rule's hits in the last seven days and links to the calls", async () => {
  const rules = [
    { class: 'email', place: 'input', action: 'observe' },
    { class: 'iban', place: 'input', action: 'block' },
    { class: 'expression', place: 'output', action: 'observe', expression: 'Hello' },
  ];
  await gateway().admin('PUT', api, { rules });
  expect(await rowWith('IBAN', member)).toContain('None');
  const seen = [await call('Hello ada@example.com'), await call('Hello bob@example.com')];
  const blocked = await call('DE89 3704 0044 0532 0130 00');
  expect([...seen, blocked].map(({ status }) => status)).toEqual([200, 200, 403]);

  const row = await rowWith('E-mail address', member);
  expect(row).toMatch(/\/hits">2<\/a>/);
  expect(await rowWith('IBAN', member)).toMatch(/\/hits">1<\/a>/);
  expect(await rowWith('Hello', member)).toMatch(/\/hits">2<\/a>/);
  const hits = decodeEntities(await (await member.get(pathOf(row, 'hits'))).text());
  expect(hits).toContain('matched in 2 calls in the last 7 days');
  const links = [...hits.matchAll(new RegExp(`href="${path}/calls/([0-9a-f-]{36})"`, 'g'))].map(([, id]) => id);
  expect(links).toEqual(seen.map(({ id }) => id).toReversed());
  const blockedPage = await textOf(member.get(pathOf(await rowWith('IBAN', member), 'hits')));
  expect(blockedPage).toContain('blocked before it reached a vendor');
  const blockedLink = `${path}/calls/${blocked.id}`;
  const blockedHits = async () => (await member.get(pathOf(await rowWith('IBAN', member), 'hits'))).text();
  expect(await blockedHits()).toContain(blockedLink);
  // In a flood, most refused calls are only counted.
  await gateway().database.query('delete from refused_calls where id = $1::uuid', [blocked.id]);
  expect(await blockedHits()).not.toContain(blockedLink);
  expect(hits + blockedPage).not.toMatch(/ada@|DE89/);

  const { data } = await jsonOf<{ data: unknown[] }>(gateway().admin('GET', `${api}/hits`));
  expect(data).toEqual([
    { ...rules[0], hits: 2, calls: links },
    { ...rules[1], hits: 1, calls: [blocked.id] },
    { ...rules[2], hits: 2, calls: expect.arrayContaining(links) },
  ]);
  const csv = (await (await member.get(`${path}/rules.csv`)).text()).trim().split('\r\n');
  expect(csv).toEqual([
    'place,class,action,expression,hits_7_days',
    'input,email,observe,,2',
    'input,iban,block,,1',
    'output,expression,observe,Hello,2',
  ]);
  expect((await member.get(`${path}/rules/0000000000000000/hits`)).status).toBe(404);
});
