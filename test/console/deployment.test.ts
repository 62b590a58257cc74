/** Tests pages that have figures about all projects. Only deployment admins can see them. */
import { beforeAll, expect, test } from '@jest/globals';
import type { Attempt } from '../../src/core/call.ts';
import { storeCalls } from '../../src/usage/store-calls.ts';
import { settledCall } from '../journal/calls.ts';
import { type SignedIn, signIn } from '../support/console.ts';
import { jsonOf, shareGateway } from '../support/gateway.ts';

const gateway = shareGateway({ database: 'any' });
const page = '/console/admin/overview';
let admin: SignedIn;

/** Returns the text of a page, or of its rows that contain a text. */
async function textOf(path: string): Promise<string> {
  const response = await admin.get(path);
  expect([path, response.status]).toEqual([path, 200]);
  return (await response.text()).replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' ');
}

beforeAll(async () => {
  admin = await signIn(gateway(), 'admin', 'Ada');
  await gateway().admin('PUT', '/provision/teams/acme', { name: 'Acme', monthly_cap: 4 });
  await gateway().admin('PUT', '/provision/teams/beta', { name: 'Beta <b>' });
  await gateway().admin('PUT', '/provision/teams/idle', { name: 'Idle' });
  const issued = await jsonOf<{ prefix: string }>(
    gateway().admin('POST', '/provision/teams/beta/keys', { name: 'beta server', ceilings: { cost: 50 } }),
  );
  const projectOf = async (slug: string) => (await gateway().app.projects.findBySlug(slug))?.id ?? '';
  const [row] = await gateway().database.query<{ id: string }>('select id from virtual_keys where prefix = $1::text', [issued.prefix]);
  const attempt = (changes: Partial<Attempt>): Attempt => ({ ...(settledCall().result.attempts[0] as Attempt), ...changes });
  const now = Date.now() - 1_000;
  const yesterday = now - 24 * 3_600_000;
  const call = async (slug: string, startedAt: number, costNanos: number, failed = false) =>
    settledCall({
      metadata: {
        ...{ startedAt, projectId: await projectOf(slug) },
        ...(slug === 'beta' && { keyId: row?.id ?? '', keyPrefix: issued.prefix }),
      },
      result: {
        ...{ model: failed ? null : 'two/echo', costNanos, outcome: failed ? 'failed' : 'ok', status: failed ? 502 : 200 },
        attempts: failed
          ? [attempt({ provider: 'dead', outcome: 'failed', costNanos: 0 })]
          : [attempt({ provider: 'dead', outcome: 'failed', costNanos: 0 }), attempt({ n: 2, provider: 'two', costNanos })],
      },
    });
  const calls = [
    await call('acme', now, 3_500_000_000),
    ...(await Promise.all([1, 2, 3].map(() => call('beta', now, 1_000_000_000)))),
    await call('beta', now, 0, true),
    await call('beta', yesterday, 2_000_000_000),
  ];
  await gateway().database.transaction((tx) => storeCalls(tx, calls));
});

test('shows totals over all projects and compares them with the previous period', async () => {
  const response = await (await admin.get(`${page}?range=24h`)).text();
  expect(response).toContain('href="/console/p/beta/overview?range=24h"');
  expect(response).not.toContain('Beta <b>');
  const text = await textOf(`${page}?range=24h`);
  expect(text).toMatch(/Spend \$6\.50 .*\$2\.00 before/);
  expect(text).toMatch(/Acme \$3\.50 of \$4\.00 this month 1 0 \$3\.50 \$0\.00/);
  expect(text).toMatch(/Beta &lt;b&gt; None 4 1 25% \$3\.00 \$2\.00 \+50%/);
  expect(text).toMatch(/All projects 5 1 20% \$6\.50 \$2\.00 \+225%/);
  expect(text).toContain('1 project made no calls.');
  expect(text).toMatch(/Caps nearly reached 1 of 1 projects/);
  expect(text).toMatch(/beta server Beta &lt;b&gt; .* of \$50\.00 this month 4 1 25% \$3\.00 \$2\.00/);
  expect(text).toMatch(/two\/echo 4 0 \$6\.50 \$2\.00/);
});

test('the deployment overview shows which provider is failing', async () => {
  const text = await textOf(`${page}?range=24h`);
  expect(text).toMatch(/ dead failing 5 of 5 5 5 100% /);
  expect(text).toMatch(/ two healthy 0 of 4 4 0 \$6\.50 \$2\.00/);
  expect(text).toMatch(/ one Not called No attempts 0 0 /);
  // The pages of a project say the same, although it was other projects whose attempts failed.
  const healthOf = async (path: string, provider: string): Promise<string | undefined> =>
    new RegExp(`<tr>.*?>${provider}<.*?data-label="Health"><div>(.*?)</div>`, 's')
      .exec((await (await admin.get(path)).text()).split('Providers</h2>')[1] ?? '')?.[1]
      ?.replace(/<[^>]*>/g, '');
  const pages = ['/console/p/acme/routing', '/console/p/acme/overview', '/console/p/idle/routing'];
  for (const path of pages)
    expect([path, await healthOf(path, 'dead'), await healthOf(path, 'two'), await healthOf(path, 'one')]).toEqual([
      ...[path, 'failing', 'healthy', 'Not called'],
    ]);
  expect(await textOf('/console/p/idle/routing')).toMatch(/ dead .* failing closed /);
  const { database } = gateway();
  const projects = await database.query<{ id: string }>('select id from projects order by slug limit 2');
  const [process] = await database.query<{ id: string }>('select id from processes order by heartbeat_at desc limit 1');
  for (const { id } of projects)
    await database.query(
      `insert into provider_breakers (project_id, provider, process, state, failures, opened_at, retry_at)
       values ($1::uuid, 'two', $2::uuid, 'open', 7, '2026-11-20T10:00:00Z', '2026-11-20T10:01:00Z')`,
      [id, process?.id],
    );
  expect(await textOf(page)).toMatch(/ two down in 2 projects since 2026-11-20 10:00/);
  for (const path of pages) expect([path, await healthOf(path, 'two')]).toEqual([path, 'down']);
  expect(await textOf('/console/p/idle/routing')).not.toContain('in 2 projects');
});

test('exports the figures of every project as CSV', async () => {
  const csv = await (await admin.get(`${page}.csv?range=24h`)).text();
  const lines = csv.trim().split('\r\n');
  expect(lines[0]).toBe(
    'project,name,calls,errors,cost_usd,calls_of_unknown_cost,calls_before,errors_before,cost_usd_before,monthly_cap_usd,month_to_date_usd',
  );
  expect(lines).toContain('acme,Acme,1,0,3.5,0,0,0,0,4,3.5');
  expect(lines).toContain('beta,Beta <b>,4,1,3,0,1,0,2,,');
});

test('the list of projects shows the spend of each project', async () => {
  const text = await textOf('/console/admin/projects');
  expect(text).toMatch(/Acme acme allowed 1 0 \$3\.50 \$0\.00 \$3\.50 of \$4\.00 this month/);
  expect(text).toMatch(/Idle idle allowed 0 0 \$0\.00 \$0\.00 None/);
  const csv = await (await admin.get('/console/admin/projects.csv')).text();
  expect(csv).toMatch(/acme,Acme,true,4,[^,]*,1,0,3\.5,3\.5\r\n/);
});

test('only deployment admins can open the deployment pages', async () => {
  for (const role of ['owner', 'member', 'stranger'] as const) {
    const person = await signIn(gateway(), role);
    for (const path of [page, `${page}.csv`, '/console/admin/projects'])
      expect([path, (await person.get(path)).status]).toEqual([path, 404]);
    expect(await (await person.get('/console/account')).text()).not.toContain('Deployment overview');
  }
  expect(await (await admin.get('/console/account')).text()).toContain('Deployment overview');
});

test('the admin API reports the same usage as the deployment page', async () => {
  const usage = await jsonOf<Record<string, unknown>>(gateway().admin('GET', '/provision/usage'));
  expect(usage).toMatchObject({
    currency: 'USD',
    by_project: expect.arrayContaining([expect.objectContaining({ project: 'acme', cost: 3.5, monthly_cap: 4 })]),
  });
});
