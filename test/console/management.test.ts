/**
 * Tests keys, applications, routing, rules, members and the audit log in the console. Forms are submitted like a
 * browser would.
 */
import { beforeAll, describe, expect, test } from '@jest/globals';
import { dayMs } from '../../src/core/time.ts';
import { sharedChromium } from '../support/chromium.ts';
import { type SignedIn, signIn } from '../support/console.ts';
import { callsOf, defaultYaml, eventually, shareGateway, type TestGateway } from '../support/gateway.ts';
import { decodeEntities as decode, hiddenValue, textOf } from '../support/page-text.ts';

const gateway = shareGateway({
  database: 'any',
  yaml: (vendorUrl, deadUrl) => defaultYaml(vendorUrl, deadUrl).replace('key-two, dialect: chat', '$&, tags: [eu]'),
});
const browser = sharedChromium();
const path = '/console/p/acme';
let owner: SignedIn;
let member: SignedIn;
let admin: SignedIn;

beforeAll(async () => {
  [owner, member, admin] = await Promise.all([signIn(gateway(), 'owner'), signIn(gateway(), 'member'), signIn(gateway(), 'admin')]);
});

/** Returns the details of the latest audit row for an action. */
async function auditOf(action: string): Promise<{ outcome: string; detail: unknown; personId: string } | undefined> {
  const [row] = await gateway().database.query<{ outcome: string; detail: unknown; personId: string }>(
    `select outcome, detail, person_id as "personId" from audit_log where action = $1::text order by id desc limit 1`,
    [action],
  );
  return row;
}

const callWith = (key: string, { url }: TestGateway = gateway()): Promise<Response> =>
  fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'standard', messages: [{ role: 'user', content: 'Hello' }] }),
  });

describe('keys', () => {
  const fields = {
    name: 'shop',
    models: 'standard\none/echo',
    'ceilings.cost': '2.5',
    'windows.cost': 'day',
    'ceilings.calls': '60',
    'windows.calls': 'total',
    'ceilings.rpm': '60',
  };

  test('shows the secret of a new key once, and rejects calls after the key is revoked', async () => {
    const issued = await owner.post(`${path}/keys`, fields);
    expect([issued.status, issued.headers.get('cache-control')]).toEqual([200, 'no-store']);
    const page = await issued.text();
    const secret = /sk-gw-[a-z0-9]{8}-[0-9A-Za-z]{49}/.exec(page)?.[0] ?? '';
    const prefix = secret.split('-')[2] ?? '';
    expect(decode(page)).toContain(`curl ${gateway().url}/v1/chat/completions`);
    expect((await callWith(secret)).status).toBe(200);

    const shown = await textOf(member.get(`${path}/keys/${prefix}`));
    expect(shown).toContain('1 of 60 calls in total');
    expect(shown).toMatch(/of \$2\.50 today/);
    expect(shown).toContain('just now');
    expect(await textOf(member.get(`${path}/keys`))).toContain(`sk-gw-${prefix}`);
    expect(`${shown}${await textOf(owner.get(`${path}/keys`))}`).not.toContain(secret.slice(15));
    expect(await auditOf('key.issue')).toMatchObject({
      outcome: 'ok',
      personId: owner.personId,
      detail: { prefix, name: 'shop', ceilings: { cost: 2.5, rpm: 60 }, windows: { calls: 'total', cost: 'day' } },
    });
    expect(JSON.stringify(await auditOf('key.issue'))).not.toContain(secret);

    expect(await textOf(owner.post(`${path}/keys/${prefix}/revoke`), 422)).toContain(`Type ${prefix} to confirm`);
    const revoked = await owner.post(`${path}/keys/${prefix}/revoke`, { confirmation: prefix });
    expect([revoked.status, revoked.headers.get('location')]).toEqual([303, `${path}/keys`]);
    expect((await callWith(secret)).status).toBe(401);
  });

  test("shows what happens to a key's calls during a database outage", async () => {
    const pageOf = async (settings: Record<string, string>): Promise<string> => {
      const issued = await (await owner.post(`${path}/keys`, { name: 'outage', ...settings })).text();
      return textOf(member.get(`${path}/keys/${/sk-gw-([a-z0-9]{8})-/.exec(issued)?.[1]}`));
    };
    const refusing = await pageOf({ on_budget_store_down: 'refuse', default_max_output_tokens: '500' });
    expect(refusing).toContain('Calls whose ceilings cannot be checked are refused with status 503. This is set for the key.');
    expect(refusing).toContain('500 tokens');
    const inheriting = await pageOf({ on_budget_store_down: '', default_max_output_tokens: '' });
    expect(inheriting).toContain('each process may use up to a tenth of it');
    expect(inheriting).toContain('This is set in the configuration of the gateway.');
    const prepaid = { 'ceilings.cost': '5', 'windows.cost': 'total' };
    const hint = 'issue a key that refuses calls in an outage';
    expect(await pageOf(prepaid)).toContain(hint);
    expect(await pageOf({ ...prepaid, on_budget_store_down: 'refuse' })).not.toContain(hint);
    expect(await textOf(owner.get(`${path}/keys/new`))).toContain('Same as the project: allow calls, up to a tenth of each ceiling');
    const wrong = await textOf(owner.post(`${path}/keys`, { name: 'outage', default_max_output_tokens: '0' }), 422);
    expect(wrong).toMatch(/name="default_max_output_tokens"[^>]*aria-invalid="true"/);
  });

  test('a rotated key keeps its settings, and the old key still works for the grace period', async () => {
    const first = await (await owner.post(`${path}/keys`, { name: 'rotated', 'ceilings.calls': '10' })).text();
    const old = /sk-gw-[a-z0-9]{8}-[0-9A-Za-z]{49}/.exec(first)?.[0] ?? '';
    const oldPrefix = old.split('-')[2] ?? '';
    const page = await (await owner.post(`${path}/keys/${oldPrefix}/rotate`, { grace_seconds: '3600' })).text();
    const secret = /sk-gw-[a-z0-9]{8}-[0-9A-Za-z]{49}/.exec(page)?.[0] ?? '';
    expect([(await callWith(secret)).status, (await callWith(old)).status]).toEqual([200, 200]);
    expect(await textOf(owner.get(`${path}/keys/${secret.split('-')[2]}`))).toContain('2 of 10 calls this month');
  });

  test('keeps invalid values in the key form and shows the error next to the field', async () => {
    const page = await textOf(owner.post(`${path}/keys`, { ...fields, 'ceilings.rpm': '1.5' }), 422);
    expect(page).toMatch(/name="ceilings.rpm"[^>]*value="1.5"[^>]*aria-invalid="true"/);
    expect(page).toMatch(/<textarea[^>]*name="models"[^>]*> standard one\/echo/);
    const past = await textOf(owner.post(`${path}/keys`, { ...fields, expires_at: '2020-01-01T00:00' }), 422);
    expect(past).toMatch(/name="expires_at"[^>]*aria-invalid="true"[^>]*>.*Must be in the future\./);
    const impossible = await textOf(owner.post(`${path}/keys`, { ...fields, expires_at: '2040-02-30T00:00' }), 422);
    expect(impossible).toMatch(/name="expires_at"[^>]*aria-invalid="true"/);
    expect(await auditOf('key.issue')).toMatchObject({ outcome: 'refused', detail: { error: 'bad_request' } });
  });

  test("applies a lowered ceiling to the key's next call", async () => {
    const issued = await (await owner.post(`${path}/keys`, { ...fields, name: 'editable', 'windows.cost': 'month' })).text();
    const secret = /sk-gw-[a-z0-9]{8}-[0-9A-Za-z]{49}/.exec(issued)?.[0] ?? '';
    const keyPath = `${path}/keys/${secret.split('-')[2]}`;
    expect((await callWith(secret)).status).toBe(200);
    expect(await textOf(member.get(`${path}/keys`))).toContain('60 calls per minute');
    expect(await textOf(member.get(keyPath))).not.toContain('Edit');
    expect((await member.get(`${keyPath}/edit`)).status).toBe(403);
    expect((await member.post(`${keyPath}/edit`, fields)).status).toBe(403);

    const opened = await (await owner.get(`${keyPath}/edit`)).text();
    expect(decode(opened)).toMatch(/name="ceilings.cost"[^>]*value="2.5"/);
    const form = { ...fields, read: hiddenValue(opened, 'read'), name: 'editable', 'windows.cost': 'month' };
    const unchanged = await owner.post(`${keyPath}/edit`, form);
    expect([unchanged.status, unchanged.headers.get('location')]).toEqual([303, keyPath]);
    const lowered = { ...form, name: 'edited <b>', models: 'standard', 'ceilings.calls': '1', expires_at: '2030-01-01T00:00' };
    expect((await owner.post(`${keyPath}/edit`, lowered)).status).toBe(303);
    expect((await callWith(secret)).status).toBe(429);
    const shown = await (await member.get(keyPath)).text();
    expect(shown).toContain('edited &lt;b&gt;');
    expect(decode(shown)).toMatch(/1 of 1 calls in total[\s\S]*/);
    expect(shown).toContain('2030-01-01');
    expect(await auditOf('key.change')).toMatchObject({
      outcome: 'ok',
      detail: {
        changed: { name: { from: 'editable', to: 'edited <b>' }, models: { to: ['standard'] }, ceilings: { to: { calls: 1 } } },
      },
    });

    const stale = { ...form, 'ceilings.calls': '500', expires_at: '' };
    const refused = await (await owner.post(`${keyPath}/edit`, stale)).text();
    expect(decode(refused.replace(/<[^>]*>/g, ''))).toContain('Calls: was 60, is now 1');
    expect(refused).toMatch(/name="ceilings.calls"[^>]*value="500"/);
    expect((await owner.post(`${keyPath}/edit`, { ...stale, read: hiddenValue(refused, 'read') })).status).toBe(303);
    expect((await callWith(secret)).status).toBe(200);
    const read = hiddenValue(await (await owner.get(`${keyPath}/edit`)).text(), 'read');
    expect(await textOf(owner.post(`${keyPath}/edit`, { ...lowered, read, 'ceilings.calls': '-1' }), 422)).toMatch(
      /name="ceilings.calls"[^>]*value="-1"[^>]*aria-invalid="true"/,
    );
    await owner.post(`${keyPath}/revoke`, { confirmation: secret.split('-')[2] ?? '' });
    expect(await textOf(owner.post(`${keyPath}/edit`, lowered), 422)).toContain('The key is revoked');
  });

  test("doesn't issue a second key when the form is submitted again by a page reload", async () => {
    const count = async (): Promise<number> =>
      (await gateway().database.query('select 1 from virtual_keys where name = $1::text', ['reloaded'])).length;
    const form = { name: 'reloaded', key_id: hiddenValue(await (await owner.get(`${path}/keys/new`)).text(), 'key_id') };
    const page = await (await owner.post(`${path}/keys`, form)).text();
    const prefix = /sk-gw-([a-z0-9]{8})-/.exec(page)?.[1];
    const again = await owner.post(`${path}/keys`, form);
    expect([again.status, again.headers.get('location'), await count()]).toEqual([303, `${path}/keys/${prefix}`, 1]);
    expect(await auditOf('key.issue')).toMatchObject({ outcome: 'ok', detail: { prefix, repeated: true } });

    const keyPage = await (await owner.get(`${path}/keys/${prefix}`)).text();
    const rotation = { grace_seconds: '3600', key_id: hiddenValue(keyPage, 'key_id') };
    const rotated = /sk-gw-([a-z0-9]{8})-/.exec(await (await owner.post(`${path}/keys/${prefix}/rotate`, rotation)).text())?.[1];
    const repeated = await owner.post(`${path}/keys/${prefix}/rotate`, rotation);
    expect([repeated.headers.get('location'), await count()]).toEqual([`${path}/keys/${rotated}`, 2]);

    const twice = { name: 'twice', key_id: hiddenValue(await (await owner.get(`${path}/keys/new`)).text(), 'key_id') };
    const both = await Promise.all([owner.post(`${path}/keys`, twice), owner.post(`${path}/keys`, twice)]);
    expect(both.map(({ status }) => status).sort()).toEqual([200, 303]);

    const elsewhere = await gateway().withProject('reloads');
    const stranger = await signIn(elsewhere, 'owner');
    const foreign = await stranger.post('/console/p/reloads/keys', form);
    expect([foreign.status, (await foreign.text()).includes(prefix ?? '-')]).toEqual([422, false]);
  });

  test("doesn't let the browser choose the id of a new key", async () => {
    const before = await textOf(member.get(`${path}/keys`));
    for (const key_id of ['00000000-0000-0000-0000-000000000000', '01900000-0000-4000-8000-000000000000']) {
      expect((await owner.post(`${path}/keys`, { name: 'own id', key_id })).status).toBe(200);
      expect(await gateway().database.query('select 1 from virtual_keys where id = $1::uuid', [key_id])).toEqual([]);
    }
    expect(before).not.toContain('own id');
  });

  test("interprets a key's expiry in the time zone that the form showed", async () => {
    const traveller = await signIn(gateway(), 'owner');
    const inZone = (time_zone: string) => traveller.post('/console/account/display', { theme: '', time_zone });
    await inZone('Asia/Kathmandu');
    const form = await (await traveller.get(`${path}/keys/new`)).text();
    expect(form).toContain('Expires (Asia/Kathmandu)');
    await inZone('America/New_York');
    const fields = { name: 'abroad', expires_at: '2040-01-01T12:00', zone: hiddenValue(form, 'zone') };
    const issued = /sk-gw-([a-z0-9]{8})-/.exec(await (await traveller.post(`${path}/keys`, fields)).text())?.[1];
    const expiry = async () => {
      const [row] = await gateway().database.query<{ at: Date }>('select expires_at as at from virtual_keys where prefix = $1::text', [
        issued,
      ]);
      return row?.at.toISOString();
    };
    expect(await expiry()).toBe('2040-01-01T06:15:00.000Z');
    const opened = await (await traveller.get(`${path}/keys/${issued}/edit`)).text();
    expect(opened).toMatch(/name="expires_at"[^>]*value="2040-01-01T01:15"/);
    await inZone('Asia/Kathmandu');
    const edit = {
      name: 'renamed abroad',
      expires_at: '2040-01-01T01:15',
      zone: hiddenValue(opened, 'zone'),
      read: hiddenValue(opened, 'read'),
    };
    expect((await traveller.post(`${path}/keys/${issued}/edit`, edit)).status).toBe(303);
    expect(await expiry()).toBe('2040-01-01T06:15:00.000Z');
    for (const [action, form] of [
      [`${path}/keys`, fields],
      [`${path}/keys/${issued}/edit`, edit],
    ] as const)
      expect(await textOf(owner.post(action, { ...form, zone: 'Mars/Olympus' }), 422)).toMatch(
        /name="expires_at"[^>]*aria-invalid="true"[^>]*>.*Was entered in an unknown time zone/,
      );
  });

  test('exports all virtual keys as CSV, including revoked ones', async () => {
    const csv = await (await member.get(`${path}/keys.csv?show=all`)).text();
    expect(csv.split('\r\n')[0]).toMatch(/^name,prefix,state,models/);
    expect(csv).toMatch(/\r\nshop,[a-z0-9]{8},revoked,standard one\/echo,\$2\.50 per day,60 calls in total/);
  });
});

test('returns 403 for changes by non-owners and for forms without a CSRF token', async () => {
  const stranger = await signIn(gateway(), 'stranger');
  for (const page of ['keys/new', 'keys/aaaaaaaa/edit', 'applications/new', 'routing/edit', 'rules/new']) {
    expect((await member.get(`${path}/${page}`)).status).toBe(403);
    expect((await stranger.get(`${path}/${page}`)).status).toBe(404);
  }
  for (const action of ['keys', 'keys/aaaaaaaa/edit', 'applications/new', 'applications/reset', 'routing/edit', 'rules', 'members']) {
    expect((await member.post(`${path}/${action}`, { name: 'x' })).status).toBe(403);
    expect((await stranger.post(`${path}/${action}`, { name: 'x' })).status).toBe(404);
    expect((await owner.post(`${path}/${action}`, { csrf: 'wrong', name: 'x' })).status).toBe(403);
  }
  for (const page of ['people', 'projects', 'audit']) expect((await owner.get(`/console/admin/${page}`)).status).toBe(404);
});

test("sets an application's ceilings and tier, and resets them to the defaults", async () => {
  const key = gateway().key;
  const named = (url: string) => `${path}/applications/application?${new URLSearchParams({ name: url })}`;
  const created = await owner.post(`${path}/applications/new`, {
    application: 'bot <b>',
    'ceilings.calls': '1',
    'windows.calls': 'total',
    'windows.cost': 'month',
    'tiers.0.name': 'standard',
    'tiers.0.models': 'two/echo',
  });
  expect(created.headers.get('location')).toBe(named('bot <b>'));
  const call = () =>
    fetch(`${gateway().url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'x-gateway-source': 'bot <b>' },
      body: JSON.stringify({ model: 'standard', messages: [{ role: 'user', content: 'Hello' }] }),
    });
  const first = await call();
  expect([first.status, first.headers.get('x-gateway-model')]).toEqual([200, 'two/echo']);
  expect((await call()).status).toBe(429);
  const list = await (await member.get(`${path}/applications`)).text();
  expect(list).toContain('bot &lt;b&gt;');
  expect(list).not.toContain('bot <b>');
  expect(await textOf(member.get(named('bot <b>')))).toContain('1 of 1 calls in total');
  expect((await owner.post(`${path}/applications/reset`, { application: 'bot <b>' })).status).toBe(303);
  expect((await call()).status).toBe(200);
  expect(await textOf(member.get(`${path}/applications?q=bot`))).toContain('No ceiling');
  const monthly = { application: 'bot <b>', 'ceilings.calls': '40', 'windows.calls': 'month', 'windows.cost': 'month' };
  expect((await owner.post(`${path}/applications/new`, monthly)).status).toBe(303);
  expect(await textOf(member.get(`${path}/applications?q=bot`))).toContain('2 of 40 calls this month');
});

describe('routing settings', () => {
  /** Returns the current content of the form with changes. */
  const openForm = async (changes: Record<string, string>): Promise<Record<string, string>> => {
    const page = await (await owner.get(`${path}/routing/edit`)).text();
    const tiers = [...page.matchAll(/name="(tiers\.\d+\.\w+)"[^>]* value="([^"]*)"/g)].map(([, name, value]) => [name, value]);
    const current = Object.fromEntries(tiers.filter(([, value]) => value !== ''));
    return { read: hiddenValue(page, 'read'), allowed: 'all', retired: '', catalog_fill: 'configured', ...current, ...changes };
  };

  test('merges the changes of two people to different routing settings', async () => {
    const first = await openForm({ retired: 'two' });
    const second = await openForm({ 'tiers.0.name': 'fast', 'tiers.0.models': 'three/echo' });
    const third = await openForm({ retired: 'four\nthree/echo' });
    expect((await owner.post(`${path}/routing/edit`, first)).status).toBe(303);
    expect((await owner.post(`${path}/routing/edit`, second)).status).toBe(303);
    const page = await (await owner.post(`${path}/routing/edit`, third)).text();
    const text = decode(page.replace(/<[^>]*>/g, ''));
    expect(text).toContain('Someone else saved these settings');
    expect(text).toContain('Retired models and providers: was empty, is now two');
    expect(text).toContain('four\nthree/echo');
    expect((await owner.post(`${path}/routing/edit`, { ...third, read: hiddenValue(page, 'read') })).status).toBe(303);
    const project = await gateway().app.projects.findBySlug('acme');
    expect(project?.settings).toMatchObject({ retired: ['four', 'three/echo'], tiers: { fast: ['three/echo'] } });
    expect(await auditOf('project.change')).toMatchObject({
      outcome: 'ok',
      detail: { changed: { retired: { from: ['two'], to: ['four', 'three/echo'] } } },
    });
  });

  test('explains why a tier name is invalid', async () => {
    const save = async (name: string) =>
      textOf(owner.post(`${path}/routing/edit`, await openForm({ 'tiers.0.name': name, 'tiers.0.models': 'two/echo' })), 422);
    expect(await save('')).toContain('Enter a tier name for these models.');
    expect(await save('a b')).toContain('tier name may only contain letters, digits');
    expect(await save('auto')).toContain('"auto" is reserved');
  });

  test('a dry run shows how a call would be routed', async () => {
    const calls = gateway().vendor.requests().length;
    const page = await textOf(member.get(`${path}/routing/dry-run?route=chat&model=standard&bytes=400`));
    expect(page).toContain('The call would be sent');
    expect(page).toMatch(/First attempt: one\/echo/);
    expect(page).toMatch(/3 four\/echo retired: tried last|4 four\/echo retired: tried last/);
    const refused = await textOf(member.get(`${path}/routing/dry-run?route=embeddings&model=nobody%2Fx`));
    expect(refused).toContain('The call would be refused with 400');
    expect(refused).toContain('No provider nobody is configured.');
    const keyPage = await (await owner.post(`${path}/keys`, { name: 'narrow', models: 'two/echo', 'ceilings.calls': '0' })).text();
    const prefix = /sk-gw-([a-z0-9]{8})-/.exec(keyPage)?.[1];
    const narrow = await textOf(member.get(`${path}/routing/dry-run?route=chat&model=standard&key=${prefix}`));
    expect(narrow).toContain('The call would be refused with 429');
    expect(narrow).toContain('The allow-list of the key does not contain the model.');
    expect(gateway().vendor.requests().length).toBe(calls);
  });

  test('shows which required tags a provider lacks', async () => {
    const wrong = await textOf(owner.post(`${path}/routing/edit`, await openForm({ required_tags: 'eu!' })), 422);
    expect(wrong).toMatch(/name="required_tags"[^>]*aria-invalid="true"/);
    expect((await owner.post(`${path}/routing/edit`, await openForm({ required_tags: 'eu', 'tiers.0.models': 'two/echo' }))).status).toBe(
      303,
    );
    expect(await auditOf('project.change')).toMatchObject({ detail: { changed: { required_tags: { from: [], to: ['eu'] } } } });
    const page = await textOf(member.get(`${path}/routing`));
    expect(page).toContain('Required tags: eu');
    expect(page).toMatch(/one 127\.0\.0\.1\S* chat \S.* lacks eu (?:healthy|Not called) closed two 127\.0\.0\.1\S* chat .* eu allowed/);

    expect((await callWith(gateway().key)).headers.get('x-gateway-model')).toBe('two/echo');
    const [call] = await eventually(async () => {
      const calls = await callsOf(gateway());
      expect(calls[0]?.plan).toContainEqual({ model: 'one/echo', skipped: 'tags_missing', lacks: ['eu'] });
      return calls;
    });
    const why = 'The provider one does not have the required tags: eu.';
    expect(await textOf(member.get(`${path}/calls/${call?.id}`))).toContain(why);

    const issued = await (await owner.post(`${path}/keys`, { name: 'tagged', required_tags: 'zero-retention on-prem' })).text();
    const prefix = /sk-gw-([a-z0-9]{8})-/.exec(issued)?.[1];
    expect(await auditOf('key.issue')).toMatchObject({ detail: { required_tags: ['zero-retention', 'on-prem'] } });
    expect(await textOf(member.get(`${path}/keys/${prefix}`))).toContain('Required tags zero-retention, on-prem');
    const dryRun = await textOf(member.get(`${path}/routing/dry-run?route=chat&model=standard&key=${prefix}`));
    expect(dryRun).toContain('The call would be refused with 400 required tags are missing: one (eu, zero-retention, on-prem), two (zero');
    expect(dryRun).toContain('two/echo The provider two does not have the required tags: zero-retention, on-prem.');
    expect((await owner.post(`${path}/routing/edit`, await openForm({ required_tags: '' }))).status).toBe(303);
  });
});

test("doesn't log the text that content rules are tested with", async () => {
  const rules = [
    { class: 'expression', place: 'input', action: 'block', expression: 'Project \\w+' },
    { class: 'email', place: 'input', action: 'observe' },
  ];
  await gateway().admin('PUT', '/provision/teams/acme/rules', { rules });
  const result = await textOf(member.post(`${path}/rules/test`, { place: 'input', text: 'Project Falcon' }));
  expect(result).toContain('The call would be refused with 403');
  expect(result).toMatch(/Expression Project \\w\+ Block matches E-mail address Observe no match/);
  expect(await textOf(member.post(`${path}/rules/test`, { place: 'input', text: 'ada@example.com' }))).toContain('The text would pass');
  expect(gateway().logs.join('')).not.toMatch(/Falcon|ada@example/);
  expect((await callWith(gateway().key)).status).toBe(200);
  await gateway().admin('PUT', '/provision/teams/acme/rules', { rules: [] });
});

test('saving the routing, rules and price forms in a browser changes only the edited field', async () => {
  const context = await browser().newContext({ baseURL: gateway().url });
  await admin.useIn(context);
  const page = await context.newPage();
  const save = async () => {
    await page.getByRole('main').locator('button.primary').click();
    await page.getByText('Saved.').waitFor();
  };

  await page.goto(`${path}/routing/edit`);
  await page.getByLabel('Retired models and providers').fill('four/echo');
  await save();
  await page.goto(`${path}/rules/new`);
  await page.getByLabel('Looks for').selectOption('iban');
  await page.getByRole('button', { name: 'Add rule' }).click();
  await page.getByText('The rule is added.').waitFor();
  await page.getByRole('button', { name: 'Remove' }).click();
  await page.getByText('The rule is removed: IBAN in the input.').waitFor();
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.getByText('The rule is added.').waitFor();
  await gateway().admin('PUT', '/provision/teams/acme/rules', { rules: [] });

  await page.goto('/console/admin/prices/import');
  const table = { echo: { litellm_provider: 'two', mode: 'chat', input_cost_per_token: 1e-6, output_cost_per_token: 2e-6 } };
  const buffer = Buffer.from(JSON.stringify(table));
  await page.getByLabel('File').setInputFiles({ name: 'prices.json', mimeType: 'application/json', buffer });
  await page.waitForFunction('document.getElementById("field-table").value !== ""');
  await page.getByRole('button', { name: 'Show changes' }).click();
  await page.getByText('Nothing would change').waitFor();
  await context.close();
});

describe('members', () => {
  test('shows a sign-in link only once', async () => {
    const { project: slug, withProject } = gateway();
    const team = await withProject('members');
    expect(slug).toBe('acme');
    const only = await signIn(team, 'owner', 'Olga');
    const members = '/console/p/members/members';
    const page = await (await only.post(members, { email: 'New@Example.com', name: 'Nina', role: 'member' })).text();
    const link = /http:[^<"\s]*\/console\/sign-in\/link\?token=[\w-]+/.exec(page)?.[0];
    expect(link).toBeDefined();
    expect(await textOf(only.get(members))).toMatch(/Nina new@example\.com member/);
    expect(await textOf(only.post(members, { email: 'new@example.com', role: 'owner' }), 422)).toContain('is already a member');
    const nina = /members\/([0-9a-f-]{36})\/sign-in-link/.exec(await (await only.get(members)).text())?.[1] ?? '';
    const own = `${members}/${only.personId}`;

    expect(await textOf(only.post(`${own}/role`, { role: 'member' }), 422)).toContain('The project needs an owner');
    expect(await textOf(only.post(`${own}/remove`), 422)).toContain('The project needs an owner');
    expect((await only.post(`${members}/${nina}/role`, { role: 'owner' })).status).toBe(303);
    expect((await only.post(`${own}/role`, { role: 'member' })).status).toBe(303);
    expect((await only.post(`${members}/${nina}/remove`)).status).toBe(403);
    expect(await auditOf('member.change')).toMatchObject({ outcome: 'ok', detail: { role: { from: 'owner', to: 'member' } } });
  });

  test("doesn't reveal to project owners whether an e-mail address already has an account", async () => {
    const { withProject, url } = gateway();
    const [here, there] = [await withProject('invites'), await withProject('invites-of-others')];
    const [attacker, other] = [await signIn(here, 'owner', 'Mallory'), await signIn(there, 'owner', 'Olga')];
    const [unknown, known] = ['victim@example.com', (await signIn(there, 'member', 'Vic')).email];
    const add = async (by: SignedIn, project: string, email: string) => {
      const page = await (await by.post(`/console/p/${project}/members`, { email, name: 'Victor', role: 'member' })).text();
      const link = /http:[^<"\s]*\/console\/sign-in\/link\?token=([\w-]+)/.exec(page)?.[1] ?? '';
      const csrf = /name="csrf" value="([^"]+)"/.exec(page)?.[1] ?? '-';
      return { link, text: page.replaceAll(link, '').replaceAll(csrf, '').replaceAll(email, '') };
    };
    const [first, second] = [await add(attacker, 'invites', unknown), await add(attacker, 'invites', known)];
    expect(first.link).not.toBe('');
    expect(second.link).not.toBe('');
    expect(first.text.replaceAll(/\d\d:\d\d/g, '')).toBe(second.text.replaceAll(/\d\d:\d\d/g, ''));
    await add(other, 'invites-of-others', unknown);
    for (const { link } of [first, second]) {
      const opened = await fetch(`${url}/console/sign-in/link?token=${link}`);
      const cookie = opened.headers.getSetCookie()[0]?.split(';')[0] ?? '';
      const form = await opened.text();
      expect(form).not.toContain('type="password"');
      const body = new URLSearchParams({ csrf: /name="csrf" value="([^"]+)"/.exec(form)?.[1] ?? '', token: link });
      const used = await fetch(`${url}/console/sign-in/link`, { method: 'POST', headers: { cookie }, body, redirect: 'manual' });
      const session = used.headers.getSetCookie()[0]?.split(';')[0] ?? '';
      const visit = async (project: string) =>
        (await fetch(`${url}/console/p/${project}/members`, { headers: { cookie: session }, redirect: 'manual' })).status;
      expect([await visit('invites'), await visit('invites-of-others')]).toEqual([200, 404]);
    }
  });

  test("lets a deployment admin confirm a member's e-mail address", async () => {
    const team = await gateway().withProject('confirms');
    const owner = await signIn(team, 'owner');
    await owner.post('/console/p/confirms/members', { email: 'carl@example.com', role: 'member' });
    const page = await (await admin.get('/console/admin/people')).text();
    expect(page).toContain('<code>confirms</code>');
    const [row] = await team.database.query<{ id: string }>(`select id from people where claimed_email = 'carl@example.com'`);
    expect(await textOf(admin.post(`/console/admin/people/${row?.id}/confirm`))).toContain('/console/sign-in/link?token=');
    expect(await textOf(owner.get('/console/p/confirms/members'))).not.toContain('not confirmed');
    expect(await auditOf('person.confirm')).toMatchObject({ outcome: 'ok', detail: { unconfirmed: row?.id, project: 'confirms' } });
  });

  test('lets admins create people and projects and disable people', async () => {
    expect((await admin.post('/console/admin/projects', { project: 'fresh', name: 'Fresh' })).headers.get('location')).toBe(
      '/console/p/fresh/members',
    );
    expect(await textOf(admin.post('/console/admin/projects', { project: 'fresh' }), 422)).toContain('already exists');
    const page = await textOf(admin.post('/console/admin/people', { email: 'ops@example.com', admin: 'on' }));
    expect(page).toContain('/console/sign-in/link?token=');
    const person = await signIn(gateway(), 'member', 'Mo');
    const personPath = `/console/admin/people/${person.personId}`;
    expect(await textOf(admin.get('/console/admin/people'))).toContain('Mo');
    expect(await (await admin.get('/console/admin/people.csv')).text()).toMatch(
      /^email,name,admin,disabled_at,created_at\r\n(?:.*\r\n)*ops@example\.com,ops,true,,\d{4}-/,
    );
    expect((await admin.post(`${personPath}/disabled`, { disabled: 'yes' })).status).toBe(303);
    expect((await person.get(`${path}/keys`)).headers.get('location')).toMatch(/^\/console\/sign-in/);
    const own = `/console/admin/people/${admin.personId}`;
    expect(await textOf(admin.post(`${own}/admin`, { admin: 'no' }), 422)).toContain('You cannot change this for your own account');
  });
});

test('validates and saves project settings', async () => {
  const page = await (await owner.get(`${path}/project/edit`)).text();
  const fields = {
    read: hiddenValue(page, 'read'),
    name: 'Acme Corporation',
    time_zone: 'Europe/Berlin',
    may_call: 'on',
    'cache.ttl_seconds': '600',
  };
  expect(await textOf(owner.post(`${path}/project/edit`, { ...fields, time_zone: 'Mars/Olympus' }), 422)).toMatch(
    /name="time_zone"[^>]*value="Mars\/Olympus"[^>]*aria-invalid="true"/,
  );
  expect((await owner.post(`${path}/project/edit`, { ...fields, monthly_cap: '12.5' })).status).toBe(303);
  expect(await textOf(member.get(`${path}/project`))).toMatch(/Acme Corporation .* Europe\/Berlin .* of \$12\.50 this month/);
  expect(await auditOf('project.change')).toMatchObject({ detail: { changed: { monthly_cap: { from: null, to: 12.5 } } } });
  const again = hiddenValue(await (await owner.get(`${path}/project/edit`)).text(), 'read');
  const refusing = { ...fields, read: again, monthly_cap: '12.5', on_budget_store_down: 'refuse' };
  expect((await owner.post(`${path}/project/edit`, refusing)).status).toBe(303);
  expect(await textOf(member.get(`${path}/project`))).toContain('are refused with status 503. This is set for the project.');
  const before = hiddenValue(await (await owner.get(`${path}/project/edit`)).text(), 'read');
  const sampled = { ...refusing, read: before, 'cache.enabled': 'on', cache_sampled: 'on', error_codes: 'on' };
  expect((await owner.post(`${path}/project/edit`, sampled)).status).toBe(303);
  expect(await textOf(member.get(`${path}/project`))).toMatch(
    /kept for 10 min[a-z]*, also sampled ones .* The vendor's, where it names one/,
  );
  expect(await (await owner.get(`${path}/project/edit`)).text()).toMatch(/name="cache_sampled"[^>]*checked/);
  await gateway().admin('PUT', '/provision/teams/acme', { monthly_cap: null, time_zone: 'UTC', on_budget_store_down: null });
  expect(await textOf(member.get(`${path}/project`))).toContain('This is set in the configuration of the gateway.');
});

test('previews price changes before an admin imports a price table', async () => {
  const table = JSON.stringify({
    echo: { litellm_provider: 'one', mode: 'chat', input_cost_per_token: 9e-6, output_cost_per_token: 9e-6 },
    'console-model': { litellm_provider: 'two', mode: 'chat', input_cost_per_token: 1e-6, output_cost_per_token: 2e-6 },
    other: { litellm_provider: 'two', mode: 'dance' },
  });
  expect((await owner.get('/console/admin/prices/import')).status).toBe(404);
  expect(await textOf(admin.post('/console/admin/prices/preview', { table: '{' }), 422)).toContain('not valid JSON');
  for (const [as, sentence] of [
    ['openai=nobody', 'There is no provider nobody.'],
    ['openai', 'Must be &lt;name in the table&gt;=&lt;provider&gt;, for example openai=proxy.'],
  ] as const) {
    const form = await (await admin.post('/console/admin/prices/preview', { table, as })).text();
    expect(form).toContain(`<p class="error" id="field-as-error">${sentence}</p>`);
    expect(form).not.toContain('--as');
  }
  const preview = await (await admin.post('/console/admin/prices/preview', { table })).text();
  expect(preview.replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' ')).toMatch(
    /New models 1 Changed 0 Unchanged 0 Kept by gateway\.yaml 1 Not usable 1 .*two\/console-model chat \$1\.00/,
  );
  expect(await textOf(owner.get('/console/admin/prices?q=console-model'))).toContain('No model matches the filters.');
  expect((await admin.post('/console/admin/prices/import', { models: hiddenValue(preview, 'models') })).status).toBe(303);
  expect(await textOf(owner.get('/console/admin/prices?q=console-model'))).toMatch(
    /two\/console-model chat \$1\.00 \$1\.00 \$2\.00 import/,
  );
  expect((await admin.post('/console/admin/prices/remove', { model: 'two/console-model' })).status).toBe(303);
  const history = await textOf(owner.get('/console/admin/prices/model?id=two%2Fconsole-model'));
  expect(history).toContain('The model is no longer in the catalog.');
  expect(history).toMatch(/\$1\.00 \$1\.00 \$2\.00 import/);
});

test('filters the audit log by person, action and day', async () => {
  // The key may have been issued before midnight.
  const [from = '', to = ''] = [dayMs, 0].map((ago) => new Date(Date.now() - ago).toISOString().slice(0, 10));
  const query = new URLSearchParams({ person: owner.email, action: 'key.issue', from, to });
  const page = await textOf(member.get(`${path}/audit?${query}`));
  expect(page).toMatch(/Test owner issued the key shop \. Details .* ok/);
  expect(page).not.toContain('key.revoke');
  expect(await textOf(member.get(`${path}/audit?person=nobody@example.com`))).toContain('No change matches the filters.');
  expect(await textOf(member.get(`${path}/audit`))).not.toContain('person.create');
  expect(await textOf(admin.get('/console/admin/audit'))).toContain('person.create');
  const csv = await (await admin.get('/console/admin/audit.csv?action=project.create')).text();
  expect(csv.trim().split('\r\n')).toHaveLength(3);
  expect(csv).toContain('project.create,,refused');
});
