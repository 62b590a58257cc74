/** Tests Overview, Explore, Calls and Call over HTTP. The figures have to match the stored rows. */
import { randomUUID } from 'node:crypto';
import { beforeAll, expect, test } from '@jest/globals';
import { formatTimeIn, formatUsd, totalUsd } from '../../../src/console/frame/values.ts';
import type { Attempt } from '../../../src/core/call.ts';
import { newId } from '../../../src/core/ids.ts';
import { storeCalls } from '../../../src/usage/store-calls.ts';
import { type CallChanges, settledCall } from '../../journal/calls.ts';
import { type SignedIn, signIn } from '../../support/console.ts';
import { shareGateway } from '../../support/gateway.ts';

const gateway = shareGateway({ database: 'any' });
const zone = 'Asia/Kolkata';
const dayMs = 86_400_000;
const hostile = `<img src=x onerror="alert(1)">`;
const noCorrelation = settledCall().metadata.correlation;
const attempt = (changes: Partial<Attempt> = {}): Attempt => ({ ...(settledCall().result.attempts[0] as Attempt), ...changes });

let member: SignedIn;
let stranger: SignedIn;
let projectId: string;
const ids = { failover: '', cached: '', refused: '' };

beforeAll(async () => {
  const { app, database } = gateway();
  const { project } = await app.projects.put('acme', { time_zone: zone, monthly_cap: 100 });
  await app.keyring.issue(project.id, { name: 'limited', ceilings: { calls: 100 } });
  projectId = project.id;
  member = await signIn(gateway(), 'member');
  stranger = await signIn(gateway(), 'stranger');
  const now = Date.now();
  const call = (startedAt: number, { metadata = {}, ...changes }: CallChanges = {}) =>
    settledCall({ ...changes, metadata: { projectId, keyId: randomUUID(), id: newId(startedAt), startedAt, ...metadata } });
  const spread = Array.from({ length: 60 }, (_value, index) =>
    call(now - (index * 7 * dayMs) / 60, {
      metadata: { source: index % 3 === 0 ? 'web' : 'batch', correlation: { ...noCorrelation, taskId: index % 2 === 0 ? 't-1' : null } },
      result: {
        costNanos: index % 10 === 9 ? null : 1_234_567 * index,
        model: index % 4 === 0 ? 'one/big' : 'two/small',
        ...(index % 6 === 5 && { outcome: 'failed' as const, status: 502, code: 'upstream_failed' }),
      },
    }),
  );
  const failed = attempt({
    provider: 'one',
    model: 'big',
    outcome: 'failed',
    status: 503,
    durationMs: 20,
    firstByteMs: null,
    costNanos: 0,
    error: { reason: 'status', type: 'server_error', code: 'overloaded', message: `Busy ${hostile}` },
  });
  const failover = call(now - 1_000, {
    metadata: {
      source: hostile,
      correlation: { ...noCorrelation, taskId: hostile, turnId: 'u-7' },
      memory: { mode: 'write', explicitWrite: false, subject: 'user-1' },
      plan: [
        { model: 'one/big', skipped: null },
        { model: 'two/small', skipped: null },
        { model: 'three/other', skipped: 'not_permitted_for_key' },
      ],
    },
    result: {
      model: 'two/small',
      costNanos: 20_000,
      units: { reportedCostNanos: 18_500 },
      attempts: [failed, attempt({ n: 2, provider: 'two', model: 'small', waitMs: 5 })],
    },
  });
  const cached = call(now - 2_000, { result: { cache: 'hit', attempts: [], costNanos: 0, model: 'two/small' } });
  const refused = call(now - 3_000, {
    result: { outcome: 'refused', status: 429, code: 'credits_exhausted', attempts: [], costNanos: 0, model: null },
  });
  Object.assign(ids, { failover: failover.metadata.id, cached: cached.metadata.id, refused: refused.metadata.id });
  await database.query(
    `insert into model_prices (model, effective_from, price, source) values ('two/small', $1::timestamptz, $2::jsonb, 'file')`,
    [
      new Date(now - 30 * dayMs),
      { input: '1000000000', output: '2000000000', cached_input: '2000000000', cache_write: '0', cache_write_1h: '0' },
    ],
  );
  await database.transaction((tx) => storeCalls(tx, [...spread, failover, cached, refused]));
});

/** Returns the text of a page without markup and with collapsed spaces. */
async function textOf(path: string): Promise<string> {
  const response = await member.get(`/console/p/acme${path}`);
  expect([path, response.status]).toEqual([path, 200]);
  const page = await response.text();
  expect(page).not.toContain('<img src=x');
  return toText(page);
}

const toText = (page: string): string =>
  (page.split('<main')[1] ?? page)
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll(/\s+/g, ' ');

const sums = async (condition = 'true') => {
  const [row] = await gateway().database.query<{ calls: number; errors: number; cost: number; unpriced: number }>(
    `select count(*) as calls, count(*) filter (where outcome not in ('ok', 'client_left')) as errors, sum(cost_nanos)::bigint as cost,
            count(*) filter (where cost_nanos is null) as unpriced
       from calls where project_id = $1::uuid and started_at >= $2::timestamptz and ${condition}`,
    [projectId, startOfLocalDay(6)],
  );
  if (!row) throw new Error('no sums');
  return row;
};

/** Returns midnight in Kolkata `days` ago without using the code under test. */
function startOfLocalDay(days: number): Date {
  return new Date(Date.parse(`${formatTimeIn(Date.now(), zone, 'date')}T00:00:00+05:30`) - days * dayMs);
}

async function csvOf(path: string): Promise<string[][]> {
  const response = await member.get(`/console/p/acme${path}`);
  expect(response.headers.get('content-type')).toBe('text/csv; charset=utf-8');
  const lines = (await response.text()).trimEnd().split('\r\n');
  return lines.map((line) => line.split(','));
}

const sumOfColumn = (rows: readonly string[][], name: string): number => {
  const column = rows[0]?.indexOf(name) ?? -1;
  expect([name, column]).not.toEqual([name, -1]);
  return rows.slice(1).reduce((sum, row) => sum + Math.round(Number(row[column]) * 1e9), 0);
};

test('the totals on the overview page match the stored calls', async () => {
  const { calls, cost, unpriced } = await sums();
  const text = await textOf('/overview');
  expect(text).toContain(`Spend ${totalUsd(cost)}`);
  expect(text).toContain(`Calls ${calls}`);
  expect(text).toContain(`The cost of ${unpriced} calls is unknown`);
  expect(text).toContain(zone);
  expect(text).toMatch(/Project Cost per month/);
  expect(text).toMatch(/limited key Calls per month 0 of 100/);
  expect(text).toMatch(/one healthy/);
  for (const name of ['two/small', 'one/big', 'web', 'batch', 't-1']) expect(text).toContain(name);
});

test('all CSV exports add up to the same total cost', async () => {
  const { calls, cost, errors } = await sums();
  const paths = [
    '/overview.csv',
    '/overview.csv?by=task',
    '/explore.csv?group=none&unit=hour',
    '/explore.csv?group=source&unit=week',
    '/calls.csv',
  ];
  for (const path of paths) {
    const rows = await csvOf(path);
    expect([path, sumOfColumn(rows, 'cost_usd')]).toEqual([path, cost]);
    if (path !== '/calls.csv') expect(sumOfColumn(rows, 'calls') / 1e9).toBe(calls);
    expect(rows[0]?.some((name) => name.includes(zone))).toBe(true);
  }
  expect(await csvOf('/calls.csv')).toHaveLength(calls + 1);
  expect(await csvOf('/calls.csv?result=error')).toHaveLength(errors + 1);
  // A formula in an exported text must not be one for spreadsheets, and has to stay one cell.
  expect((await csvOf('/explore.csv?group=provider'))[0]).toContain('attempts');
});

test('the Explore page shows a metric by group with its total', async () => {
  const { cost } = await sums(`source = 'web'`);
  const text = await textOf('/explore?metric=cost&group=model&source=web');
  expect(text).toContain('Cost per day, by model');
  expect(text).toMatch(new RegExp(`Total.*${totalUsd(cost).replace('$', '\\$')}`));
  expect(await textOf('/explore?metric=latency_p95&group=provider&unit=hour')).toContain('These figures count attempts instead of calls.');
  expect(await textOf('/explore?metric=cache_hits&group=none&unit=month')).toContain('Cache hit rate per month');
  for (const query of ['metric=x', 'group=x', 'unit=x', 'range=x', 'status=9']) {
    expect((await member.get(`/console/p/acme/explore?${query}`)).status).toBe(400);
  }
});

test('paging through the list of calls shows each call exactly once', async () => {
  const { calls } = await sums();
  const seen: string[] = [];
  let path: string | null = '/console/p/acme/calls';
  while (path !== null) {
    const page: string = await (await member.get(path)).text();
    seen.push(...[...page.matchAll(/row-link" href="[^"]*\/calls\/([0-9a-f-]{36})"/g)].map((match) => match[1] ?? ''));
    path = /rel="next" href="([^"]*)"/.exec(page)?.[1]?.replaceAll('&amp;', '&') ?? null;
  }
  expect(seen).toHaveLength(calls);
  expect(new Set(seen).size).toBe(calls);
  const idsOf = async (query: string): Promise<string[]> => {
    const page = await (await member.get(`/console/p/acme/calls?${query}`)).text();
    return [...page.matchAll(/row-link" href="[^"]*\/calls\/([0-9a-f-]{36})"/g)].map((match) => match[1] ?? '');
  };
  expect(await idsOf('failover=yes')).toEqual([ids.failover]);
  expect(await idsOf('cache=hit')).toEqual([ids.cached]);
  expect(await idsOf('code=credits_exhausted')).toEqual([ids.refused]);
  expect(await idsOf(`task=${encodeURIComponent(hostile)}`)).toEqual([ids.failover]);
  expect(await idsOf('range=1h&status=4xx')).toEqual([ids.refused]);
  expect((await member.get('/console/p/acme/calls?before=x')).status).toBe(400);
});

test('the live list of calls can be paused', async () => {
  const live = await (await member.get('/console/p/acme/calls?live=1&cache=hit')).text();
  const poll = /hx-get="([^"]*)" hx-trigger="every 2s"/.exec(live)?.[1]?.replaceAll('&amp;', '&') ?? '';
  expect(toText(live)).toMatch(/live Refresh Pause/);
  const part = await (await member.get(poll)).text();
  expect(part).toContain(ids.cached);
  expect(part).not.toContain(ids.failover);
  expect(part).not.toContain('<main');
});

test("a call's page shows its attempts, plan, ceilings and cost breakdown", async () => {
  const text = await textOf(`/calls/${ids.failover}`);
  expect(text).toMatch(/1\. one\/big .* 503 failed/);
  expect(text).toMatch(/Wait before attempt 2/);
  expect(text).toContain(`1. one/big The vendor responded with an error (503) server_error overloaded Busy ${hostile}`);
  expect(text).toContain('It failed with status 503.');
  expect(text).toContain('It served the call.');
  expect(text).toContain('The allow-list of the key does not contain the model.');
  expect(text).toContain(`Application ${hostile}`);
  expect(text).toMatch(/Input 10 \$1\.00 per million 0\.00001 /);
  expect(text).toMatch(/Sum, rounded once 0\.00002 /);
  expect(text).toContain('The lines add up to the stored cost');
  expect(text).toContain(`Cost reported by the vendor ${formatUsd(18_500)}`);
  expect(text).toContain(`Stored cost minus reported cost ${formatUsd(1_500)}`);
  expect(text).toMatch(/Project Cost, \$100\.00 month of \d{4}-\d{2} /);
  expect(text).toContain('Turn u-7');
  expect(await textOf(`/calls/${ids.cached}`)).toContain('the response came from the response cache');
  expect(await textOf(`/calls/${ids.cached}`)).not.toContain('Cost reported by the vendor');
  expect(await textOf(`/calls/${ids.refused}`)).toContain('Project refused the call');
});

test('shows the prompt and response of a call only on demand', async () => {
  const { call } = gateway();
  const question = `${hostile} what is the time?`;
  const answer = await call('/v1/chat/completions', { model: 'one/echo', messages: [{ role: 'user', content: question }] });
  expect(answer.status).toBe(200);
  const [newest = ''] = (await csvOf('/calls.csv?range=1h'))[1] ?? [];
  const page = await textOf(`/calls/${newest}`);
  expect(page).toContain('The text is stored, but only shown on demand.');
  expect(page).not.toContain('what is the time?');
  expect(await textOf(`/calls/${newest}?text=1`)).toContain(`User ${question}`);
});

test('usage pages return 404 to people outside the project and for unknown call ids', async () => {
  for (const path of ['/overview', '/explore', '/calls', '/calls.csv', '/calls/live', `/calls/${ids.failover}`]) {
    expect([path, (await stranger.get(`/console/p/acme${path}`)).status]).toEqual([path, 404]);
  }
  const other = await signIn(await gateway().withProject('other'), 'owner');
  expect((await other.get(`/console/p/other/calls/${ids.failover}`)).status).toBe(404);
  expect((await member.get(`/console/p/acme/calls/${randomUUID()}`)).status).toBe(404);
  expect((await member.get('/console/p/acme/calls/x')).status).toBe(404);
  expect(toText(await (await other.get('/console/p/other/overview')).text())).toContain('No calls in other yet');
});

test('each usage page is smaller than 150 kB including scripts and styles', async () => {
  const { url } = gateway();
  for (const path of ['/overview?range=30d', '/explore?unit=hour', '/explore?range=24h&unit=hour&group=task', '/calls?range=30d']) {
    const page = await (await member.get(`/console/p/acme${path}`)).text();
    const assets = [...page.matchAll(/(?:src|href)="(\/console\/assets\/[^"]*)"/g)].map((match) => match[1] ?? '');
    expect(assets.length).toBeGreaterThan(2);
    const sizes = await Promise.all([...new Set(assets)].map(async (asset) => (await (await fetch(url + asset)).arrayBuffer()).byteLength));
    expect([path, page.length + sizes.reduce((sum, size) => sum + size, 0) < 150_000]).toEqual([path, true]);
  }
});

test('suggests a shorter time range instead of reading too many calls', async () => {
  const counted = ['vendor_calls', 'vendor_tokens', 'slots', 'errors', 'unpriced', 'cost_nanos', 'tokens_input', 'tokens_cached_input'];
  const columns = [...counted, 'tokens_cache_write', 'tokens_output', 'cache_hits', 'cache_lookups', 'failovers'];
  await gateway().database.query(
    `insert into usage_increments (project_id, scope, start, calls, ${columns.join(', ')})
     values ($1::uuid, 'project', date_trunc('minute', now()) - interval '2 days', 70000, ${columns.map(() => '0').join(', ')})`,
    [projectId],
  );
  for (const path of ['/explore?group=none&asked=standard', '/calls?asked=standard']) {
    const offered = await (await member.get(`/console/p/acme${path}`)).text();
    expect(toText(offered)).toMatch(/70,\d{3} calls would have to be read/);
    const links = [...offered.matchAll(/<a href="([^"]*asked=standard[^"]*)">/g)].map((match) => (match[1] ?? '').replaceAll('&amp;', '&'));
    for (const link of [links.find((href) => /from=.*to=/.test(href)), links.find((href) => href.includes('rows=all'))]) {
      const page = await (await member.get(link ?? '')).text();
      expect([link, toText(page).includes('would have to be read')]).toEqual([link, /from=/.test(link ?? '')]);
    }
  }
});
