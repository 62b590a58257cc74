/** Tests how people find out in the console how many calls were refused, and why. */
import { beforeAll, describe, expect, test } from '@jest/globals';
import { newId } from '../../../src/core/ids.ts';
import { minuteMs } from '../../../src/core/time.ts';
import { storeRefusals } from '../../../src/usage/refusals/store-refusals.ts';
import { type SignedIn, signIn } from '../../support/console.ts';
import { shareGateway } from '../../support/gateway.ts';

const gateway = shareGateway({ database: 'any' });
const hostile = '<img src=x onerror=ran=1>';
let member: SignedIn;
let owner: SignedIn;
let limited: { key: string; prefix: string };

const call = async (model: string, headers: Record<string, string> = {}): Promise<string> => {
  const response = await gateway().call('/v1/chat/completions', { model, messages: [{ role: 'user', content: 'a secret fox' }] }, headers);
  await response.arrayBuffer();
  return response.headers.get('x-gateway-call-id') ?? '';
};
const page = async (person: SignedIn, path: string): Promise<{ status: number; html: string }> => {
  const response = await person.get(`/console/p/acme${path}`);
  return { status: response.status, html: await response.text() };
};

beforeAll(async () => {
  await gateway().admin('PUT', '/provision/teams/acme', { time_zone: 'Asia/Kolkata' });
  const issued = await gateway().admin('POST', '/provision/teams/acme/keys', { name: 'limited', ceilings: { calls: 0 } });
  limited = (await issued.json()) as typeof limited;
  member = await signIn(gateway(), 'member');
  owner = await signIn(gateway(), 'owner');
});

describe('the page of a refused call', () => {
  test('shows which ceiling refused a call, with a link to change it', async () => {
    const id = await call('one/echo', { authorization: `Bearer ${limited.key}`, 'x-gateway-source': 'support-bot' });
    const { status, html } = await page(owner, `/calls/${id}`);
    expect(status).toBe(200);
    expect(html).toMatch(/ceiling of 0 calls /);
    for (const shown of ['support-bot', `limited (${limited.prefix})`, 'one/echo', 'tenant_capped', `/keys/${limited.prefix}/edit`])
      expect(html).toContain(shown);
    expect(html).not.toContain('secret fox');
    expect((await page(owner, `/keys/${limited.prefix}/edit`)).status).toBe(200);
  });

  test('links members only to pages that they may open', async () => {
    const id = await call('one/echo', { authorization: `Bearer ${limited.key}` });
    const { html } = await page(member, `/calls/${id}`);
    expect(html).toContain(`/keys/${limited.prefix}"`);
    expect(html).toContain('Only an owner of the project can change this.');
    expect(html).not.toContain(`/keys/${limited.prefix}/edit`);
  });

  test('escapes model and application names that the caller chose', async () => {
    const id = await call(`unknown/${hostile}`, { 'x-gateway-source': hostile });
    const { html } = await page(member, `/calls/${id}`);
    expect(html).toContain('&lt;img src=x onerror=ran=1&gt;');
    expect(html).not.toContain(hostile);
  });

  test("returns 404 to people outside the project, and to everybody under another project's URL", async () => {
    const id = await call('unknown/model');
    expect((await page(member, `/calls/${id}`)).status).toBe(200);
    const stranger = await signIn(gateway(), 'stranger');
    expect((await page(stranger, `/calls/${id}`)).status).toBe(404);
    const other = await signIn(await gateway().withProject('other'), 'owner');
    expect((await other.get(`/console/p/other/calls/${id}`)).status).toBe(404);
    expect((await other.get(`/console/p/acme/calls/refused`)).status).toBe(404);
  });

  test('links every refusal reason to an existing page', async () => {
    const { app, database } = gateway();
    const projectId = (await app.projects.findBySlug('acme'))?.id ?? '';
    const keyId = (await app.keyring.read(projectId, limited.prefix)).id;
    const { refusalReasons } = await import('../../../src/core/refusal.ts');
    const at = Date.now();
    const rows = refusalReasons.map((reason) => ({
      ...{ id: newId(at), projectId, keyId, keyPrefix: limited.prefix, source: 'support-bot', requestedModel: 'one/echo', route: 'chat' },
      ...{ status: 429, code: 'tenant_capped', reason, rule: 'calls/day', limit: 10 },
    }));
    const counts = rows.map(({ reason }) => ({
      ...{ projectId, keyPrefix: limited.prefix, minute: at - (at % minuteMs), reason, calls: 1, recorded: 1 },
    }));
    await storeRefusals(database, rows, counts);
    for (const { id, reason } of rows)
      for (const person of [owner, member]) {
        const { html } = await page(person, `/calls/${id}`);
        const [, href = ''] = /<p><a class="button" href="([^"]+)"/.exec(html) ?? [];
        const linked = await person.get(href.replaceAll('&amp;', '&'));
        expect([reason, href === '' ? 'no link' : linked.status]).toEqual([reason, 200]);
      }
  });
});

describe('the list of refused calls', () => {
  test('filters refused calls by reason, key and application', async () => {
    await call('unknown/of-a-bot', { 'x-gateway-source': 'lonely-bot' });
    const { html } = await page(member, '/calls/refused?source=lonely-bot');
    expect(html).toContain('unknown/of-a-bot');
    expect(html).toContain('1 refused call');
    const csv = await member.get('/console/p/acme/calls/refused.csv?source=lonely-bot');
    const lines = (await csv.text()).trim().split('\n');
    expect(lines).toHaveLength(2);
    expect(lines[1]).toContain('model_unknown');
    expect((await page(member, `/calls/refused?key=${limited.prefix}&reason=model_unknown`)).html).toContain('Unknown model');
    expect((await page(member, '/calls/refused?reason=%20model_unknown%20')).html).toContain('<option value="model_unknown" selected>');
    expect((await page(member, '/calls/refused?reason=other')).status).toBe(400);
    expect((await page(member, '/calls/refused?source=nobody')).html).toContain('No refused calls in this period match the filters.');
  });

  test('the `refused` filter leads to the list of refused calls', async () => {
    expect((await page(member, '/calls')).html).toContain('<option value="refused"');
    const moved = await member.get('/console/p/acme/calls?result=refused&range=24h&source=lonely-bot&key=&model=one');
    expect([moved.status, moved.headers.get('location')]).toEqual([303, '/console/p/acme/calls/refused?range=24h&source=lonely-bot&key=']);
  });

  test('says how many refused calls were counted but not recorded', async () => {
    const { project } = await gateway().app.projects.put('flooded', {});
    const at = Date.now();
    const count = { projectId: project.id, keyPrefix: 'gk_flood', minute: at - (at % minuteMs), reason: 'key_ceiling' as const };
    await storeRefusals(gateway().database, [], [{ ...count, calls: 12_345, recorded: 60 }]);
    const person = await signIn({ ...gateway(), project: 'flooded' }, 'member');
    const list = await (await person.get('/console/p/flooded/calls/refused')).text();
    expect(list).toContain('12,285 more refused calls were counted but not recorded');
    // A project whose calls were all refused has no calls yet.
    expect(await (await person.get('/console/p/flooded/overview')).text()).toContain('12,345 calls');
    expect(await (await person.get('/console/p/flooded/calls')).text()).toContain('12,285 of them were counted but not recorded.');
  });
});

describe('the number of refused calls', () => {
  test('shows refused calls separately on Overview, Explore and Calls', async () => {
    await call('one/echo');
    const overview = (await page(member, '/overview')).html;
    expect(overview).toMatch(/>Refused<\/a>/);
    expect(overview).toContain('/console/p/acme/calls/refused');
    for (const path of ['/calls', '/explore']) expect((await page(member, path)).html).toContain('The gateway also refused');
    expect((await page(member, '/calls?source=nobody')).html).not.toContain('The gateway also refused');
  });
});
