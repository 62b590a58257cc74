/** Tests what the list of keys says about their use, and which model names a key can have. */
import { beforeAll, expect, test } from '@jest/globals';
import { type SignedIn, signIn } from '../support/console.ts';
import { jsonOf, shareGateway } from '../support/gateway.ts';
import { decodeEntities, hiddenValue, textOf } from '../support/page-text.ts';

const gateway = shareGateway({ database: 'any' });
const path = '/console/p/acme';
let owner: SignedIn;
let member: SignedIn;

beforeAll(async () => {
  [owner, member] = await Promise.all([signIn(gateway(), 'owner'), signIn(gateway(), 'member')]);
});

async function issue(fields: Record<string, string>): Promise<{ page: string; secret: string; prefix: string }> {
  const page = await (await owner.post(`${path}/keys`, fields)).text();
  const [secret = ''] = /sk-gw-[a-z0-9]{8}-[0-9A-Za-z]{49}/.exec(page) ?? [];
  return { page, secret, prefix: secret.split('-')[2] ?? '' };
}

async function callWith(key: string, model: string): Promise<string> {
  const response = await fetch(`${gateway().url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }] }),
  });
  await response.arrayBuffer();
  return response.headers.get('x-gateway-call-id') ?? '';
}

/** Returns the row of a key in the list. */
async function rowOf(prefix: string): Promise<string> {
  const page = await (await member.get(`${path}/keys`)).text();
  return page.split('<tr').find((row) => row.includes(`sk-gw-${prefix}`)) ?? '';
}

test('shows the spend of the last 30 days and the latest error of each key', async () => {
  const [used, unused] = [await issue({ name: 'used' }), await issue({ name: 'unused' })];
  await callWith(used.secret, 'one/echo');
  const failed = await callWith(used.secret, 'one/fail-500');
  await callWith(used.secret, 'one/echo');
  const row = await rowOf(used.prefix);
  expect(row).toMatch(new RegExp(`href="${path}/calls\\?key=${used.prefix}&amp;range=30d"[^>]*><span[^>]*>\\$0\\.000`));
  expect(row).toMatch(new RegExp(`href="${path}/calls/${failed}"><code>upstream_failed</code>`));
  expect(await rowOf(unused.prefix)).toMatch(/No calls.*Never.*None/s);

  const detail = await textOf(member.get(`${path}/keys/${used.prefix}`));
  expect(detail).toMatch(/Spend, 30 days \$0\.000.* Last error upstream_failed just now/);
  const csv = (await (await member.get(`${path}/keys.csv`)).text()).split('\n');
  expect(csv[0]).toContain('spend_30_days_usd,calls_30_days,errors_30_days,last_error,last_error_at,last_error_call');
  expect(csv.find((line) => line.includes(used.prefix))).toMatch(new RegExp(`,0\\.0000\\d+,3,1,upstream_failed,[^,]+,${failed},`));
});

test('rejects unknown tiers and providers and suggests similar names', async () => {
  const rejected = await textOf(owner.post(`${path}/keys`, { name: 'typo', models: 'standrad\none/echo\nonne/echo' }), 422);
  expect(rejected).toContain('"standrad" is neither a tier nor a model (did you mean "standard"?)');
  expect(rejected).toContain('no provider "onne" is configured for "onne/echo" (did you mean "one/echo"?)');
  expect(rejected).toMatch(/<textarea[^>]*name="models"[^>]*aria-invalid="true"[^>]*> standrad/);
});

test('the API accepts keys with unknown models but returns warnings', async () => {
  const keys = '/provision/teams/acme/keys';
  const issued = await gateway().admin('POST', keys, { name: 'typo', models: ['standrad', 'one/echo'] });
  const warnings = [{ path: 'models.0', message: '"standrad" is neither a tier nor a model (did you mean "standard"?)' }];
  const key = await jsonOf<{ key: string; prefix: string }>(Promise.resolve(issued));
  expect([issued.status, key]).toMatchObject([201, { models: ['standrad', 'one/echo'], warnings }]);
  const change = (models: readonly string[]) => jsonOf<object>(gateway().admin('PATCH', `${keys}/${key.prefix}`, { models }));
  expect(await change(['standrad'])).toMatchObject({ models: ['standrad'], warnings: [] });
  expect(await change(['onne/echo'])).toMatchObject({ warnings: [{ message: expect.stringContaining('no provider "onne"') }] });
  const refused = await fetch(`${gateway().url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'one/echo', messages: [{ role: 'user', content: 'Hello' }] }),
  });
  expect([refused.status, await refused.json()]).toMatchObject([
    400,
    { error: { code: 'no_route', message: expect.stringMatching(/^model not permitted for this key: /) } },
  ]);
});

test("warns about a key's models if the project may not use their provider", async () => {
  const elsewhere = await gateway().withProject('closed');
  const admin = await signIn(elsewhere, 'owner');
  await elsewhere.admin('PUT', '/provision/teams/closed', { providers: ['two'] });
  const { warnings } = await jsonOf<{ warnings: unknown }>(
    elsewhere.admin('POST', '/provision/teams/closed/keys', { name: 'api', models: ['two/echo', 'one/echo', 'one/echo'] }),
  );
  expect(warnings).toEqual([{ path: 'models.1', message: 'the project may not use the provider "one", which "one/echo" needs' }]);
  const issued = await textOf(admin.post('/console/p/closed/keys', { name: 'console', models: 'one/echo' }));
  expect(issued).toMatch(/The key may use one\/echo ?, but the project may not use a provider for it\./);
  const prefix = /sk-gw-([a-z0-9]{8})-/.exec(issued)?.[1] ?? '';
  expect(await textOf(admin.get(`/console/p/closed/keys/${prefix}`))).toMatch(/one\/echo +provider not allowed/);
});

test("keeps a key's model name that no longer exists but rejects new unknown names", async () => {
  await gateway().admin('PUT', '/provision/teams/acme', { tiers: { seasonal: ['one/echo'] } });
  const { prefix } = await issue({ name: 'season', models: 'seasonal' });
  await gateway().admin('PUT', '/provision/teams/acme', { tiers: {} });
  expect(await textOf(member.get(`${path}/keys/${prefix}`))).toContain('seasonal neither a tier nor a model');
  const change = async (models: string): Promise<Response> => {
    const page = await (await owner.get(`${path}/keys/${prefix}/edit`)).text();
    const form = { name: 'season', read: hiddenValue(page, 'read'), models };
    return owner.post(`${path}/keys/${prefix}/edit`, form);
  };
  expect((await change('seasonal\nstandard')).status).toBe(303);
  expect(decodeEntities(await (await change('seasonal\nseasonel')).text())).toContain('"seasonel" is neither a tier nor a model');
});

test("accepts a key with a model that isn't in the catalog but shows a notice", async () => {
  const { page, prefix } = await issue({ name: 'new model', models: 'one/brand-new' });
  expect(page).toContain('The catalog does not list every model of this key');
  expect(await textOf(member.get(`${path}/keys/${prefix}`))).toContain('one/brand-new not in the catalog');
});
