/**
 * Prepares everything that the requests of `benchmark-scale` refer to, i.e. ids of existing rows, working keys of the
 * seeded projects, and the session of a deployment admin.
 */
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { request } from 'undici';
import { adminToken } from '../programs.js';

/** @param {{ client: import('pg').Client, url: string }} given */
export async function prepareSample({ client, url }) {
  const one = async (/** @type {string} */ text, /** @type {unknown[]} */ values = []) => (await client.query(text, values)).rows[0] ?? {};
  const send = async (
    /** @type {'POST' | 'PUT' | 'DELETE'} */ method,
    /** @type {string} */ path,
    /** @type {object} */ body,
    token = adminToken,
  ) => {
    const response = await request(url + path, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    const json = /** @type {Record<string, any>} */ (await response.body.json());
    if (response.statusCode >= 300) throw new Error(`${method} ${path}: ${response.statusCode} ${JSON.stringify(json)}`);
    return json;
  };
  const project = 'scale-1';
  const { id: projectId } = await one('select id from projects where slug = $1', [project]);
  const { id: smallProjectId, slug: smallProject } = await one(
    `select id, slug from projects where slug like 'scale-%' order by created_at desc, length(slug) desc, slug desc limit 1`,
  );
  // An earlier run may have rotated the seeded key. Its successor has inherited the usage, so use that one.
  const { prefix: busy } = await one(
    `select prefix from virtual_keys where project_id = $1 and revoked_at is null and expires_at is null
        and (id = (select id from virtual_keys where prefix = 'scal0001') or counted_as = (select id from virtual_keys where prefix = 'scal0001'))
      order by created_at desc limit 1`,
    [projectId],
  );
  const { key } = await send('POST', `/provision/teams/${project}/keys/${busy}/rotate`, {});
  const { key: smallKey } = await send('POST', `/provision/teams/${smallProject}/keys`, { name: 'benchmark' });
  const [email, secret, personId] = [`benchmark-${randomUUID()}@example.com`, randomBytes(32).toString('base64url'), randomUUID()];
  await client.query(`insert into people (id, email, name, is_admin, created_at) values ($1, $2, 'Benchmark', true, now())`, [
    personId,
    email,
  ]);
  await client.query(
    `insert into sessions (id, secret_sha256, person_id, created_at, last_seen_at, expires_at) values ($1, $2, $3, now(), now(), now() + interval '1 day')`,
    [randomUUID(), createHash('sha256').update(secret).digest(), personId],
  );
  await client.query(`insert into members (project_id, person_id, role, created_at) values ($1, $2, 'owner', now())`, [
    projectId,
    personId,
  ]);
  await send('PUT', `/provision/teams/${project}/applications/app-0`, { ceilings: {} }).catch(() => undefined);
  const erased = await send('DELETE', `/v1/memory/subjects/nobody-${randomUUID()}`, {}, key);
  const id = async (/** @type {string} */ table, condition = 'true') =>
    (await one(`select id from ${table} where project_id = $1 and ${condition} order by id desc offset 1000 limit 1`, [projectId])).id ??
    (await one(`select id from ${table} where project_id = $1 and ${condition} order by id limit 1`, [projectId])).id;
  const text = async (/** @type {string} */ inProject) =>
    (await one('select text from memory_items where project_id = $1 limit 1', [inProject])).text;
  return {
    cookie: `gateway_session=${secret}`,
    sample: {
      ...{
        project,
        projectId,
        smallProjectId,
        key,
        smallKey,
        email,
        personId,
        erasureId: erased['id'] ?? erased['erasure_id'],
        prefix: 'scal0001',
      },
      ...{ callId: await id('calls', `outcome = 'ok'`), itemId: await id('memory_items', `state = 'live'`) },
      ...{ conversationId: await id('conversations'), batchId: await id('memory_batches') },
      ...{ query: await text(projectId), smallQuery: await text(smallProjectId), subject: 'user-7' },
    },
  };
}
