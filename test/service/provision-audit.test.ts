/**
 * Tests the audit log for changes under `/provision`. Each change has one row, even if it failed, and no row contains a
 * secret.
 */
import { expect, test } from '@jest/globals';
import { asObject } from '../../src/core/json/narrow.ts';
import { describeApi } from '../../src/http/openapi.ts';
import { adminToken, jsonOf, shareGateway } from '../support/gateway.ts';

interface AuditRow {
  readonly actor: string;
  readonly action: string;
  readonly project: string | null;
  readonly target: string | null;
  readonly outcome: string | null;
  readonly detail: Record<string, unknown>;
}

const lent = shareGateway({ database: 'any' });

const rowsAfter = (id: number): Promise<(AuditRow & { id: number })[]> =>
  lent().database.query(
    `select a.id, actor, action, slug as project, target, outcome, detail from audit_log a left join projects p on p.id = project_id
     where a.id > $1::bigint order by a.id`,
    [id],
  );
const lastId = async (): Promise<number> => (await rowsAfter(0)).at(-1)?.id ?? 0;

const changes = Object.entries(asObject(describeApi().paths)).flatMap(([path, methods]) =>
  path.startsWith('/provision')
    ? Object.keys(asObject(methods)).flatMap((method) => (method === 'get' ? [] : [[method.toUpperCase(), path] as const]))
    : [],
);

test.each(changes)('adds one row to the audit log for a rejected change: %s %s', async (method, path) => {
  const before = await lastId();
  const address = path.replace('{project}', 'nobody').replaceAll(/\{\w+\}/g, '0193a8f0-0000-7000-8000-000000000000');
  const response = await lent().admin(method, address, { colour: 'red' });
  expect([400, 404]).toContain(response.status);
  const rows = await rowsAfter(before);
  expect(rows).toHaveLength(1);
  expect(rows[0]).toMatchObject({ actor: 'admin_token', outcome: 'refused', action: expect.stringMatching(/^[a-z_]+\.[a-z_]+$/) });
});

test.each(changes.filter(([, path]) => !['/provision/batches/replay', '/provision/usage/reprice'].includes(path)))(
  "doesn't log a change under a project that only its body names: %s %s",
  async (method, path) => {
    const before = await lastId();
    const address = path.replace('{project}', 'nobody').replaceAll(/\{\w+\}/g, '0193a8f0-0000-7000-8000-000000000000');
    await lent().admin(method, address, { project: lent().project });
    expect(await rowsAfter(before)).toMatchObject([{ project: null }]);
  },
);

test('logs a change under the project in its body if the route has no other', async () => {
  const before = await lastId();
  const { admin, project } = lent();
  await admin('POST', '/provision/batches/replay', { project, state: 'failed' });
  await admin('POST', '/provision/usage/reprice', { project, from: '2026-11-01T00:00:00Z', to: '2026-11-02T00:00:00Z' });
  expect(await rowsAfter(before)).toMatchObject([
    { project, action: 'batch.replay_all' },
    { project, action: 'usage.reprice' },
  ]);
});

test('shows the old and new value of a changed setting in the audit log', async () => {
  const { admin, project } = lent();
  const before = await lastId();
  await admin('PUT', `/provision/teams/${project}`, { may_call: true, monthly_cap: 7, time_zone: 'Asia/Kolkata' });
  await admin('PUT', `/provision/teams/${project}/memory`, { batch_of: 5 });
  await admin('PUT', `/provision/teams/${project}/applications/bot`, { ceilings: { calls: 3 } });
  await admin('PUT', `/provision/teams/created`, { may_call: false });
  expect(await rowsAfter(before)).toMatchObject([
    {
      action: 'project.change',
      project,
      outcome: 'ok',
      detail: { changed: { monthly_cap: { from: null, to: 7 }, time_zone: { from: 'UTC', to: 'Asia/Kolkata' } } },
    },
    { action: 'memory.update', project, detail: { changed: { batch_of: { from: 20, to: 5 } } } },
    { action: 'application.change', project, target: 'bot', detail: { changed: { ceilings: { to: { calls: 3, cost: null } } } } },
    { action: 'project.create', project: null, target: 'created', detail: { changed: { may_call: { to: false } } } },
  ]);
});

test('records a single creation if several requests create the same project at once', async () => {
  const { admin } = lent();
  const before = await lastId();
  const created = await Promise.all([1, 2, 3, 4, 5].map((cap) => admin('PUT', '/provision/teams/contested', { monthly_cap: cap })));
  expect(created.map(({ status }) => status).sort()).toEqual([200, 200, 200, 200, 201]);
  const rows = await rowsAfter(before);
  expect(rows.filter(({ action }) => action === 'project.create')).toMatchObject([{ project: null, target: 'contested' }]);
  const changed = rows.filter(({ action }) => action === 'project.change');
  expect(changed).toMatchObject(Array.from({ length: 4 }, () => ({ project: 'contested', target: 'contested', outcome: 'ok' })));
  // Each change names the value that it has replaced.
  for (const { detail } of changed)
    expect(detail).toEqual({ changed: { monthly_cap: { from: expect.any(Number), to: expect.any(Number) } } });
});

test('shows the prefix and settings of a key in the audit log, but not its secret', async () => {
  const { admin, project } = lent();
  const before = await lastId();
  const issued = await jsonOf<{ key: string; prefix: string }>(admin('POST', `/provision/teams/${project}/keys`, { name: 'ci' }));
  const rotated = await jsonOf<{ key: string; prefix: string }>(admin('POST', `/provision/teams/${project}/keys/${issued.prefix}/rotate`));
  await admin('DELETE', `/provision/teams/${project}/keys/${rotated.prefix}`);
  const rows = await rowsAfter(before);
  expect(rows).toMatchObject([
    { action: 'key.issue', project, outcome: 'ok', detail: { prefix: issued.prefix, name: 'ci' } },
    { action: 'key.rotate', project, target: issued.prefix, detail: { prefix: rotated.prefix } },
    { action: 'key.revoke', project, target: rotated.prefix, detail: { name: 'ci' } },
  ]);
  for (const secret of [issued.key, rotated.key, adminToken]) expect(JSON.stringify(rows)).not.toContain(secret);
});

test('adds nothing to the audit log for a request without the admin token', async () => {
  const before = await lastId();
  const { url, key, project } = lent();
  const response = await fetch(`${url}/provision/teams/${project}`, { method: 'PUT', headers: { authorization: `Bearer ${key}` } });
  expect(response.status).toBe(401);
  expect(await rowsAfter(before)).toEqual([]);
});
