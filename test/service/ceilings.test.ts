/**
 * Tests ceilings with the whole service, i.e. which calls are denied, when, and with which message (see
 * docs/architecture/ceilings.md).
 */
import { expect, test } from '@jest/globals';
import { isExhaustive } from '../support/exhaustive.ts';
import { callsOf, eventually, jsonOf, shareGateway, type TestGateway } from '../support/gateway.ts';
import { createSlowClock } from '../support/slow-clock.ts';
import { onAnyDatabase } from './both-databases.ts';

/** The vendor has a long timeout, because a thousand concurrent calls are slow. */
const chat = (changes: object = {}) => ({ model: 'two/echo', max_tokens: 16, messages: [{ role: 'user', content: 'hi' }], ...changes });

interface Status {
  readonly key: { readonly ceilings: Readonly<Record<string, { used: number; reserved: number; remaining: number | null }>> };
  readonly credit: { readonly state: string };
}

/** Creates another key with ceilings in the project. */
async function limited(gateway: TestGateway, slug: string, ceilings: object, windows?: object): Promise<TestGateway> {
  const lent = await gateway.withProject(slug);
  const { key } = await jsonOf<{ key: string }>(
    lent.admin('POST', `/provision/teams/${slug}/keys`, { name: 'limited', ceilings, windows }),
  );
  const call: TestGateway['call'] = (path, body, headers = {}) => lent.call(path, body, { authorization: `Bearer ${key}`, ...headers });
  return { ...lent, key, call };
}

async function statusesOf(work: readonly Promise<Response>[]): Promise<Record<number, number>> {
  const counts: Record<number, number> = {};
  for (const answer of await Promise.all(work)) {
    await answer.arrayBuffer();
    counts[answer.status] = (counts[answer.status] ?? 0) + 1;
  }
  return counts;
}

onAnyDatabase('ceilings', (database) => {
  const gateway = shareGateway({ database, clock: createSlowClock() });

  // The embedded database has a single session, so more calls don't make it busier.
  const many = database === 'server' || isExhaustive ? 1_000 : 200;

  test(`admits exactly 100 of ${many} concurrent calls under a ceiling of 100`, async () => {
    const { call } = await limited(gateway(), 'many-calls', { calls: 100 });
    const counts = await statusesOf(Array.from({ length: many }, () => call('/v1/chat/completions', chat())));
    expect(counts).toEqual({ 200: 100, 429: many - 100 });
    expect((await call('/v1/chat/completions', chat())).status).toBe(429);
    const status = await jsonOf<Status>(call('/status/peek'));
    expect(status.key.ceilings.calls).toMatchObject({ used: 100, reserved: 0, remaining: 0 });
  });

  test('admits exactly 50 of 200 concurrent calls under an rpm ceiling of 50', async () => {
    const { call } = await limited(gateway(), 'many-rpm', { rpm: 50 });
    expect(await statusesOf(Array.from({ length: 200 }, () => call('/v1/chat/completions', chat())))).toEqual({ 200: 50, 429: 150 });
  });

  test('names the ceiling in a 429', async () => {
    for (const ceiling of ['calls', 'cost', 'rpm', 'tpm']) {
      const { call } = await limited(gateway(), `message-${ceiling}`, { [ceiling]: 0 });
      const message = `key budget exceeded (${ceiling})`;
      const onChat = await call('/v1/chat/completions', chat());
      expect([onChat.status, onChat.headers.get('retry-after')]).toEqual([429, '60']);
      expect(await onChat.json()).toEqual({ error: { message, type: 'tenant_capped', code: 'tenant_capped' } });
      const onMessages = await call('/v1/messages', chat({ model: 'three/echo' }));
      expect([onMessages.status, onMessages.headers.get('retry-after')]).toEqual([429, '60']);
      expect(await onMessages.json()).toEqual({ type: 'error', error: { type: 'rate_limit_error', message } });
    }
  });

  test('tells exhausted project, application and key ceilings apart in a 429', async () => {
    const { call, admin, project } = await limited(gateway(), 'order', { calls: 1 });
    await admin('PUT', `/provision/teams/${project}/applications/app`, { ceilings: { calls: 2 } });
    await admin('PUT', `/provision/teams/${project}`, { monthly_cap: 0 });
    const ask = async () => {
      const answer = await call('/v1/chat/completions', chat(), { 'x-gateway-source': 'app' });
      return [answer.status, answer.headers.get('retry-after'), (await jsonOf<{ error?: { message: string } }>(answer)).error?.message];
    };
    expect(await ask()).toEqual([429, '3600', 'the project has reached its monthly cap']);
    await admin('PUT', `/provision/teams/${project}`, { monthly_cap: 1 });
    await admin('PUT', `/provision/teams/${project}/applications/app`, { ceilings: { calls: 0, cost: 0 } });
    expect(await ask()).toEqual([429, '60', "source budget exceeded for 'app' (calls)"]);
    await admin('PUT', `/provision/teams/${project}/applications/app`, { ceilings: { calls: null } });
    expect(await ask()).toEqual([429, '60', "source budget exceeded for 'app' (cost)"]);
    await admin('PUT', `/provision/teams/${project}/applications/app`, { ceilings: { cost: null } });
    expect((await ask())[0]).toBe(200);
    expect(await ask()).toEqual([429, '60', 'key budget exceeded (calls)']);
  });

  test('returns 402 for a project that may not make calls', async () => {
    const { call, admin, project } = await limited(gateway(), 'may-not', { calls: 0 });
    await admin('PUT', `/provision/teams/${project}`, { may_call: false });
    expect((await call('/v1/chat/completions', chat())).status).toBe(402);
    expect((await call('/v1/chat/completions', chat({ model: 'nobody/knows' }))).status).toBe(400);
    const onMessages = await call('/v1/messages', chat({ model: 'three/echo' }));
    expect(await onMessages.json()).toMatchObject({ type: 'error', error: { type: 'permission_error' } });
  });

  test('counts failed calls, but not those that never reach a vendor', async () => {
    const { call } = await limited(gateway(), 'no-slot', { calls: 2 });
    for (let n = 0; n < 5; n += 1) expect((await call('/v1/chat/completions', chat({ model: 'nobody/knows' }))).status).toBe(400);
    // Audio in a message cannot be translated to the other dialect.
    const untold = {
      model: 'three/echo',
      messages: [{ role: 'user', content: [{ type: 'input_audio', input_audio: { data: 'AA==', format: 'wav' } }] }],
    };
    for (let n = 0; n < 5; n += 1) expect((await call('/v1/chat/completions', untold)).status).toBe(400);
    expect((await call('/v1/chat/completions', chat({ model: 'dead/echo' }))).status).toBe(503);
    expect((await call('/v1/chat/completions', chat())).status).toBe(200);
    expect((await call('/v1/chat/completions', chat())).status).toBe(429);
  });

  test('serves cached responses even if a ceiling is exhausted', async () => {
    const { call, admin, project } = await limited(gateway(), 'hits', { calls: 1, cost: 1 });
    await admin('PUT', `/provision/teams/${project}`, { cache: { enabled: true } });
    const question = chat();
    for (const cache of ['miss', 'hit', 'hit']) {
      const answer = await call('/v1/chat/completions', question);
      await answer.arrayBuffer();
      expect([answer.status, answer.headers.get('x-gateway-cache')]).toEqual([200, cache]);
    }
    expect((await call('/v1/chat/completions', chat({ max_tokens: 17 }))).status).toBe(429);
    const { ceilings } = (await jsonOf<Status>(call('/status/peek'))).key;
    expect(ceilings.calls).toMatchObject({ used: 1, remaining: 0 });
  });

  test('counts what plain and streamed calls cost and releases the rest of their reservations', async () => {
    const { call, project, admin } = await limited(gateway(), 'streams', { calls: 4, cost: 1, tpm: 1_000_000 });
    for (const stream of [true, false]) await (await call('/v1/chat/completions', chat({ stream }))).text();
    const rows = await callsOf({ admin, project });
    const spent = rows.reduce((sum, { cost }) => sum + cost, 0);
    expect(spent).toBeGreaterThan(0);
    const { ceilings } = (await jsonOf<Status>(call('/status/peek'))).key;
    expect(ceilings.calls).toEqual(expect.objectContaining({ used: 2, reserved: 0, remaining: 2 }));
    expect(ceilings.cost?.used).toBeCloseTo(spent, 12);
    expect(ceilings.cost?.reserved).toBe(0);
  });

  test('skips a model without a price only if a cost ceiling applies', async () => {
    const { call, admin, project } = await limited(gateway(), 'unpriced', { cost: 1 });
    await admin('PUT', `/provision/teams/${project}`, { tiers: { mixed: ['one/unlisted', 'two/echo'] } });
    const answer = await call('/v1/chat/completions', chat({ model: 'mixed' }));
    expect([answer.status, answer.headers.get('x-gateway-model')]).toEqual([200, 'two/echo']);
    const [row] = await callsOf({ admin, project });
    expect(row?.plan).toContainEqual({ model: 'one/unlisted', skipped: 'price_unknown' });
    expect((await call('/v1/chat/completions', chat({ model: 'one/unlisted' }))).status).toBe(400);
  });

  test('counts earlier calls of the month against a new ceiling', async () => {
    const { call, admin, project } = await gateway().withProject('mid-month');
    const source = `/provision/teams/${project}/applications/${project}`;
    const ask = async () => (await call('/v1/chat/completions', chat())).status;
    expect([await ask(), await ask(), await ask()]).toEqual([200, 200, 200]);
    await callsOf({ admin, project });
    await admin('PUT', source, { ceilings: { calls: 5 } });
    expect([await ask(), await ask(), await ask()]).toEqual([200, 200, 429]);
    await admin('PUT', source, { ceilings: { calls: 1_000 } });
    expect([await ask(), await ask()]).toEqual([200, 200]);
    await admin('PUT', source, { ceilings: { calls: 8 } });
    expect([await ask(), await ask()]).toEqual([200, 429]);
  });

  test('shares usage between a rotated key and its predecessor', async () => {
    const { call, admin, project, key } = await limited(gateway(), 'rotated', { calls: 4, cost: 1 });
    const path = (of: string) => `/provision/teams/${project}/keys/${of.split('-')[2]}/rotate`;
    const ask = async (secret: string) => {
      const answer = await call('/v1/chat/completions', chat(), { authorization: `Bearer ${secret}` });
      await answer.arrayBuffer();
      return answer.status;
    };
    const used = async (secret: string) => {
      const { ceilings } = (await jsonOf<Status>(call('/status/peek', undefined, { authorization: `Bearer ${secret}` }))).key;
      return ceilings;
    };
    expect([await ask(key), await ask(key)]).toEqual([200, 200]);
    const { key: second } = await jsonOf<{ key: string }>(admin('POST', path(key), { grace_seconds: 600 }));
    expect(await used(second)).toEqual(await used(key));
    expect((await used(second)).calls).toMatchObject({ used: 2, remaining: 2 });
    expect([await ask(second), await ask(key)]).toEqual([200, 200]);
    expect([await ask(second), await ask(key)]).toEqual([429, 429]);
    const { key: third } = await jsonOf<{ key: string }>(admin('POST', path(second), {}));
    expect([await ask(third), await ask(key), await ask(second)]).toEqual([429, 429, 401]);
    expect((await used(third)).calls).toMatchObject({ used: 4, remaining: 0 });
    // A new counter includes the calls of all three.
    await gateway().database.query(`delete from limit_counters where project_id = (select id from projects where slug = 'rotated')`);
    expect((await used(third)).calls).toMatchObject({ used: 4, remaining: 0 });
    expect((await used(third)).cost?.used).toBeGreaterThan(0);
  });

  test('admits a call larger than the rest of a tpm ceiling if no other call is running', async () => {
    const { call } = await limited(gateway(), 'alone', { tpm: 1_000 });
    const large = chat({ max_tokens: 100_000 });
    const first = call('/v1/chat/completions', { ...large, model: 'two/echo+held' });
    await eventually(async () => {
      expect((await jsonOf<Status>(call('/status/peek'))).key.ceilings.tpm).toMatchObject({ used: 0, reserved: 1_000, remaining: 0 });
    });
    expect((await call('/v1/chat/completions', large)).status).toBe(429);
    await eventually(async () => expect(gateway().vendor.release()).toBe(1));
    expect((await first).status).toBe(200);
    expect((await call('/v1/chat/completions', large)).status).toBe(200);
  });

  test('applies ceilings to media calls', async () => {
    const image = { model: 'one/painter', prompt: 'a fox', size: '8x8' };
    const { call, admin, project } = await limited(gateway(), 'media', { calls: 1 });
    const first = await call('/v1/images/generations', image);
    await first.arrayBuffer();
    expect(first.status).toBe(200);
    const second = await call('/v1/images/generations', image);
    expect([second.status, second.headers.get('retry-after')]).toEqual([429, '60']);
    expect(await second.json()).toMatchObject({ error: { code: 'tenant_capped', message: 'key budget exceeded (calls)' } });
    await admin('PUT', `/provision/teams/${project}`, { monthly_cap: 1 });
    expect((await call('/v1/images/generations', image)).status).toBe(400);
    await admin('PUT', `/provision/teams/${project}`, { monthly_cap: null, may_call: false });
    expect((await call('/v1/images/generations', image)).status).toBe(402);
    const { ceilings } = (await jsonOf<Status>(call('/status/peek'))).key;
    expect(ceilings.calls).toMatchObject({ used: 1, reserved: 0, remaining: 0 });
  });

  test("revokes a process's share of a ceiling only after its heartbeats have stopped", async () => {
    const { call, admin, project } = await limited(gateway(), 'leases', { calls: 1 });
    const list = async () => (await jsonOf<{ data: { process: string; alive: boolean }[] }>(admin('GET', '/provision/leases'))).data;
    const lost = '01936b1e-0000-7000-8000-00000000dead';
    await gateway().database.query(
      `with counter as (
         insert into limit_counters (project_id, holder, holder_id, ceiling, window_kind, window_start, settled, leased)
         select id, 'project', 'lost', 'calls', 'total', to_timestamp(0), 0, 1 from projects where slug = $1::text returning id
       ) insert into limit_leases (counter_id, process, amount) select id, $2::uuid, 1 from counter`,
      [project, lost],
    );
    await (await call('/v1/chat/completions', chat())).arrayBuffer();
    const living = await eventually(async () => {
      const found = (await list()).find(({ alive }) => alive);
      if (!found) throw new Error('nobody holds a lease');
      return found;
    });
    expect((await admin('DELETE', `/provision/leases/${living.process}`)).status).toBe(409);
    expect(await jsonOf(admin('DELETE', `/provision/leases/${lost}`))).toEqual({ process: lost, released: 1 });
    expect((await admin('DELETE', `/provision/leases/${lost}`)).status).toBe(404);
    expect((await admin('DELETE', '/provision/leases/nobody')).status).toBe(400);
  });
});
