/** Tests the Explore page, grouped by end user, by person and by attempted model. */
import { randomUUID } from 'node:crypto';
import { beforeAll, expect, test } from '@jest/globals';
import type { Attempt } from '../../../src/core/call.ts';
import { internalKeyId, noCorrelation } from '../../../src/core/call.ts';
import { storeCalls } from '../../../src/usage/store-calls.ts';
import { settledCall } from '../../journal/calls.ts';
import { type SignedIn, signIn } from '../../support/console.ts';
import { eventually, jsonOf, shareGateway } from '../../support/gateway.ts';

const gateway = shareGateway({ database: 'any' });
const path = '/console/p/acme';
let member: SignedIn;

async function pageOf(url: string): Promise<{ text: string; html: string }> {
  const response = await member.get(url);
  const html = await response.text();
  expect([url, response.status]).toEqual([url, 200]);
  return { html: html.replaceAll('&amp;', '&'), text: html.replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' ') };
}

/** Returns the links to calls in the table of groups. */
function callLinks(html: string, name: string): string[] {
  return [...html.matchAll(/<td[^>]*><div><a href="([^"]*)">([^<]*)<\/a>/g)].flatMap(([, href = '', text]) =>
    text === name ? [href] : [],
  );
}

beforeAll(async () => {
  member = await signIn(gateway(), 'member', 'Maya');
});

test('groups usage by end user and shows the ids that applications send', async () => {
  for (const user of ['ann <b>', 'ann <b>', 'bob']) {
    const sent = await gateway().call('/v1/chat/completions', { model: 'standard', user, messages: [{ role: 'user', content: 'Hello' }] });
    expect(sent.status).toBe(200);
    await sent.arrayBuffer();
  }
  const { text, html } = await pageOf(`${path}/explore?group=subject&metric=calls&range=24h`);
  expect(text).toMatch(/Totals of the period End user Share Calls Errors Cost ann &lt;b&gt; [\d.]+% 2 0 .{1,20} bob [\d.]+% 1 0 /);
  const [href = ''] = callLinks(html, 'bob');
  expect(href).toMatch(/subject=[0-9a-f]{64}/);
  expect((await pageOf(href)).text).toContain('1 call, 0 errors');
  const csv = await (await member.get(`${path}/explore.csv?group=subject&range=24h`)).text();
  expect(csv).toMatch(/,bob,1,0,/);
});

test('counts the failures of a model even if another model served the call', async () => {
  await gateway().admin('PUT', '/provision/teams/acme', { tiers: { shaky: ['dead/m', 'two/echo'] } });
  for (let calls = 0; calls < 2; calls += 1) {
    const sent = await gateway().call('/v1/chat/completions', { model: 'shaky', messages: [{ role: 'user', content: 'Hello' }] });
    expect([sent.status, sent.headers.get('x-gateway-model')]).toEqual([200, 'two/echo']);
    await sent.arrayBuffer();
  }
  const { text, html } = await pageOf(`${path}/explore?group=attempted&metric=errors&range=24h`);
  expect(text).toMatch(/Attempted model \(attempts\) Share Attempts Errors Cost dead\/m 100% 2 2 /);
  expect(text).toMatch(/two\/echo 0% 2 0 /);
  expect(text).toContain('These figures count attempts instead of calls.');
  const [href = ''] = callLinks(html, 'dead/m');
  const calls = (await pageOf(href)).text;
  expect(calls).toContain('2 calls, 0 errors');
  expect(calls).toContain('Attempted model: dead/m');
});

test('groups refused calls by reason and links to the calls', async () => {
  const { key: secret, prefix } = await jsonOf<{ key: string; prefix: string }>(
    gateway().admin('POST', '/provision/teams/acme/keys', { name: 'tight', ceilings: { calls: 0 } }),
  );
  for (const [key, model] of [
    [secret, 'standard'],
    [secret, 'standard'],
    [gateway().key, 'no-such-model'],
  ] as const) {
    const sent = await fetch(`${gateway().url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }] }),
    });
    expect([400, 429]).toContain(sent.status);
    await sent.arrayBuffer();
  }
  const url = `${path}/explore?group=refusal&range=24h`;
  const { text, html } = await eventually(async () => {
    const page = await pageOf(url);
    expect(page.text).toMatch(/Refusal reason Share Refused calls Ceiling of the key 66\.7% 2 Unknown model 33\.3% 1 Total 3/);
    return page;
  });
  expect(text).toContain('Refused calls per hour, by reason');
  const [href = ''] = callLinks(html, 'Ceiling of the key');
  expect(href).toContain('/calls/refused?range=24h&reason=key_ceiling');
  expect((await pageOf(`${url}&key=${prefix}`)).text).toMatch(/Ceiling of the key 100% 2 Total 2/);
  expect((await pageOf(`${url}&source=acme`)).text).toMatch(/Ceiling of the key 66\.7% 2 /);
  const csv = await (await member.get(`${path}/explore.csv?group=refusal&range=24h`)).text();
  expect(csv).toMatch(/^hour \(UTC\),reason,refused_calls\r\n/);
  expect(csv).toContain(',key_ceiling,2');
  for (const group of ['refusal', 'source'])
    expect((await member.get(`${path}/explore.csv?group=${group}&unit=hour&from=2025-01-01&to=2025-12-31`)).status).toBe(400);
});

test('groups playground calls by person', async () => {
  const project = await gateway().app.projects.findBySlug('acme');
  const gone = randomUUID();
  const call = (triggerDetail: string, { source = 'gateway-playground', keyId = internalKeyId } = {}) =>
    settledCall({
      metadata: {
        ...{ startedAt: Date.now() - 1_000, projectId: project?.id ?? '', source, keyId },
        correlation: { ...noCorrelation, triggerKind: 'playground', triggerDetail },
      },
      result: { attempts: [] as Attempt[], costNanos: 2_000_000_000 },
    });
  const calls = [call(member.personId), call(member.personId), call(gone), call('anything'), call('x', { source: 'elsewhere' })];
  await gateway().database.transaction((tx) => storeCalls(tx, calls));
  const { text, html } = await pageOf(`${path}/explore?group=person&metric=cost&range=24h`);
  expect(text).toMatch(/Person \(playground\) Share Calls Errors Cost Maya 50% 2 0 \$4\.00/);
  expect(text).toContain(`${gone} 25% 1 0 $2.00`);
  expect(text).toMatch(/Total 4 0 \$8\.00/);
  const [href = ''] = callLinks(html, 'Maya');
  expect((await pageOf(href)).text).toContain('2 calls, 0 errors');
});

test('ignores headers that claim that a call was made in the playground', async () => {
  const victim = await signIn(gateway(), 'stranger', 'Victoria');
  const headers = {
    'x-gateway-trigger-kind': 'playground',
    'x-gateway-trigger-detail': victim.personId,
  };
  const sent = await gateway().call('/v1/chat/completions', { model: 'standard', messages: [{ role: 'user', content: 'Hello' }] }, headers);
  expect(sent.status).toBe(200);
  await sent.arrayBuffer();
  const { text } = await pageOf(`${path}/explore?group=person&metric=calls&range=24h&source=acme`);
  expect(text).toContain('Not a person');
  expect(text).not.toContain('Victoria');
  const admin = await signIn(gateway(), 'admin');
  const overview = await (await admin.get('/console/admin/overview')).text();
  expect(overview).toContain('People by spend in the playground');
  expect(overview).not.toContain('Victoria');
});
