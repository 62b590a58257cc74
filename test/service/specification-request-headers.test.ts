/**
 * Tests the request headers in docs/api/reference.md#request-headers. Each row is tested on every route of the row.
 *
 * specification-media.test.ts and video.test.ts cover media routes, recall.test.ts covers the effect of `recall`, and
 * learning.test.ts covers an explicit `write` on a conversation with a single call.
 */
import { describe, expect, it } from '@jest/globals';
import type { TestGateway } from '../support/gateway.ts';
import { callsOf, jsonOf, shareGateway } from '../support/gateway.ts';
import { startTogether } from '../support/start-together.ts';
import { ask, expectRouteError, nameOf, passthroughRoutes, projectLender, recordingRoutes, routeOf, routes } from './inference-routes.ts';

const lent = shareGateway({ database: 'any' });
const lendProject = projectLender(lent, 'headers');

/** Header values are bytes, so `fetch` sends each character as one byte. */
const asBytes = (text: string): string => Buffer.from(text).toString('latin1');

/** Returns the project's recorded calls, newest first, once all calls so far are stored. */
async function conversationsOf(gateway: TestGateway): Promise<readonly { readonly subject: string | null }[]> {
  await callsOf(gateway);
  return gateway.database.query<{ subject: string | null }>(
    `select conversation.subject from conversations conversation join projects project on project.id = conversation.project_id
      where project.slug = $1::text order by conversation.id desc`,
    [gateway.project],
  );
}

describe('x-gateway-source', () => {
  it.each(routes)('attributes the cost to the application on $name', async (route) => {
    const gateway = await lendProject();
    const source = 'Büro 7 / Ablage ✓';
    const path = `/provision/teams/${gateway.project}`;
    await gateway.admin('PUT', path, { tiers: { own: [nameOf(route, 'first/echo')] } });
    await gateway.admin('PUT', `${path}/applications/${encodeURIComponent(source)}`, { tiers: { own: [nameOf(route, 'second/echo')] } });
    const given = await ask(gateway, route, 'own', { headers: { 'x-gateway-source': asBytes(source) } });
    expect([given.status, given.headers.get('x-gateway-model')]).toEqual([200, nameOf(route, 'second/echo')]);
    for (const headers of [{}, { 'x-gateway-source': '' }] as Record<string, string>[]) {
      expect((await ask(gateway, route, 'own', { headers })).headers.get('x-gateway-model')).toBe(nameOf(route, 'first/echo'));
    }
    expect(await callsOf(gateway)).toMatchObject([{ source: gateway.project }, { source: gateway.project }, { source }]);
    const usage = await jsonOf<{ by_source: { source: string; calls: number }[] }>(gateway.call('/usage/me'));
    expect(new Map(usage.by_source.map((row) => [row.source, row.calls]))).toEqual(
      new Map([
        [source, 1],
        [gateway.project, 2],
      ]),
    );
  });
});

describe('x-gateway-timeout-ms', () => {
  const timedOut = startTogether(routes, async (route) => {
    const gateway = await lendProject();
    const chain = [nameOf(route, 'first/slow-200+fail-500'), nameOf(route, 'second/hang')];
    await gateway.admin('PUT', `/provision/teams/${gateway.project}`, { tiers: { chain } });
    return { gateway, answer: await ask(gateway, route, 'chain', { headers: { 'x-gateway-timeout-ms': '5000' } }) };
  });

  it.each(routes)('limits the total duration of all attempts on $name', async (route) => {
    const { gateway, answer } = await timedOut(route);
    await expectRouteError(answer, route, { status: [502, 503], code: 'upstream_failed', message: /^client deadline exceeded/ });
    expect(await callsOf(gateway)).toMatchObject([{ outcome: 'deadline', attempts: [{ outcome: 'failed' }, { outcome: 'deadline' }] }]);
  });

  it.each(routes)('caps x-gateway-timeout-ms at 120000 on $name', async (route) => {
    const gateway = await lendProject();
    // Without the cap, the timer would overflow and end the call immediately.
    for (const value of ['99999999999999', '0']) {
      const answer = await ask(gateway, route, 'first/slow-10', { headers: { 'x-gateway-timeout-ms': value } });
      expect([value, answer.status]).toEqual([value, 200]);
    }
  });
});

describe('x-gateway-memory', () => {
  it.each(passthroughRoutes.filter(({ records }) => !records))('ignores x-gateway-memory on $name', async (route) => {
    const gateway = await lendProject();
    for (const mode of ['', 'write', 'Recall', 'OFF']) {
      expect((await ask(gateway, route, 'first/echo', { headers: { 'x-gateway-memory': mode } })).status).toBe(200);
    }
    expect(await conversationsOf(gateway)).toEqual([]);
  });

  it.each(routes)('returns 400 invalid_memory_mode on $name for an unknown mode', async (route) => {
    const gateway = await lendProject();
    const answer = await ask(gateway, route, 'first/echo', { headers: { 'x-gateway-memory': 'maybe' } });
    await expectRouteError(answer, route, { status: 400, code: 'invalid_memory_mode' });
    expect(await callsOf(gateway)).toEqual([]);
  });
});

describe('x-gateway-memory-subject', () => {
  const bodyWith = (name: string, subject: unknown) => (name === 'messages' ? { metadata: { user_id: subject } } : { user: subject });

  it.each(recordingRoutes)('prefers the subject in the header over the one in the body on $name', async (route) => {
    const longest = '\u{1f600}'.repeat(256);
    for (const [header, body, subject] of [
      ['Müller', 'somebody', 'Müller'],
      [longest, undefined, longest],
      ['', 'user 7', 'user 7'],
      [null, 'a'.repeat(257), null],
      [null, 7, null],
    ] as const) {
      const gateway = await lendProject();
      const headers: Record<string, string> = header === null ? {} : { 'x-gateway-memory-subject': asBytes(header) };
      const answer = await ask(gateway, route, 'first/echo', { headers, more: body === undefined ? {} : bodyWith(route.name, body) });
      expect(answer.status).toBe(200);
      expect(await conversationsOf(gateway)).toEqual([{ subject }]);
    }
  });

  const wrong = ['a'.repeat(257), '\u00c3\u0028'];

  it.each(recordingRoutes)('returns 400 invalid_memory_subject on $name only if the call is recorded', async (route) => {
    const gateway = await lendProject();
    for (const subject of wrong) {
      const headers = { 'x-gateway-memory-subject': subject };
      await expectRouteError(await ask(gateway, route, 'first/echo', { headers }), route, { status: 400, code: 'invalid_memory_subject' });
      const unrecorded = await ask(gateway, route, 'first/echo', { headers: { ...headers, 'x-gateway-memory': 'off' } });
      expect(unrecorded.status).toBe(200);
    }
    expect(await callsOf(gateway)).toHaveLength(wrong.length);
  });

  it.each(routes.filter(({ records }) => !records))('ignores x-gateway-memory-subject on $name', async (route) => {
    const gateway = await lendProject();
    for (const subject of wrong) {
      expect((await ask(gateway, route, 'first/echo', { headers: { 'x-gateway-memory-subject': subject } })).status).toBe(200);
    }
  });
});

describe('correlation headers', () => {
  const sent = {
    'x-gateway-task-id': asBytes('Größe 7: x'),
    'x-gateway-turn-id': '17',
    'x-gateway-agent-id': 'agent',
    'x-gateway-trigger-kind': 'cron',
    'x-gateway-trigger-detail': 'nightly',
    'x-gateway-iteration': '-3',
    'x-gateway-distil-saved': '1200',
  };
  const stored = {
    ...{ task_id: 'Größe 7: x', turn_id: '17', agent_id: 'agent', trigger_kind: 'cron', trigger_detail: 'nightly' },
    ...{ iteration: -3, distil_saved: 1_200 },
  };

  it.each(routes)('stores correlation headers with the call on $name', async (route) => {
    const gateway = await lendProject();
    expect((await ask(gateway, route, 'first/echo', { headers: sent })).status).toBe(200);
    expect(await callsOf(gateway)).toMatchObject([stored]);
  });

  it.each(routes)('groups cost by x-gateway-task-id on $name', async (route) => {
    const gateway = await lendProject();
    for (const task of ['t-1', 't-2', 't-1']) await ask(gateway, route, 'first/echo', { headers: { 'x-gateway-task-id': task } });
    await ask(gateway, route, 'first/echo');
    const usage = await jsonOf<{ by_task: { task_id: string; calls: number; cost: number; tokens: number }[] }>(gateway.call('/usage/me'));
    expect(new Map(usage.by_task.map(({ task_id: task, calls }) => [task, calls]))).toEqual(
      new Map([
        ['t-1', 2],
        ['t-2', 1],
      ]),
    );
    for (const row of usage.by_task)
      expect(row).toEqual({ task_id: row.task_id, calls: row.calls, cost: expect.any(Number), tokens: expect.any(Number) });
  });

  it('routes to the same model with and without correlation headers', async () => {
    const gateway = await lendProject();
    const all = Object.fromEntries(Object.keys(sent).map((header) => [header, 'standard']));
    for (const headers of [{}, all]) {
      expect((await ask(gateway, routeOf('chat'), 'standard', { headers })).headers.get('x-gateway-model')).toBe('one/echo');
    }
  });
});
