import { setTimeout } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { Database } from '../../src/db/database.ts';
import { createKeyring, type Keyring } from '../../src/keys/keyring.ts';
import { generateSecret } from '../../src/keys/secret.ts';
import { createProjects, type Project } from '../../src/projects/projects.ts';
import { describeDatabases } from '../db/databases.ts';

const start = Date.parse('2026-11-20T10:00:00Z');
const invalid = expect.objectContaining({ code: 'invalid_key' });

describeDatabases('a keyring', (database) => {
  let now = start;
  const clock = { now: () => now };
  let queries: string[] = [];
  let failing: RegExp | null = null;
  let keyring: Keyring;
  let otherKeyring: Keyring;
  let project: Project;

  /** Records queries. Those that match `failing` fail as if the server were unavailable. */
  const observedDatabase = (): Database => ({
    ...database(),
    async query(text, values) {
      queries.push(text);
      if (failing?.test(text)) throw Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
      return database().query(text, values);
    },
  });

  beforeEach(async () => {
    now = start;
    failing = null;
    keyring = createKeyring({ database: observedDatabase(), clock });
    otherKeyring = createKeyring({ database: database(), clock });
    await Promise.all([keyring.start(), otherKeyring.start()]);
    ({ project } = await createProjects({ database: database(), clock }).put(`project-${generateSecret().prefix}`, {}));
    queries = [];
  });
  afterEach(() => Promise.all([keyring.stop(), otherKeyring.stop()]));

  /** Waits until `keyring` has received all notifications so far, which arrive in commit order. */
  const receiveNotifications = async (): Promise<void> => {
    const { secret, record } = await otherKeyring.issue(project.id, { name: 'last' });
    await keyring.find(secret);
    await otherKeyring.revoke(project.id, record.prefix);
    await until(() => isRejected(keyring, secret));
  };

  test('every process accepts a new key immediately', async () => {
    const { secret, record } = await keyring.issue(project.id, {
      ...{ name: 'ci', models: ['standard'], expires_at: '2027-01-01T00:00:00Z' },
      ...{ on_budget_store_down: 'refuse', default_max_output_tokens: 500, required_tags: ['eu'] },
    });
    const caller = {
      keyId: record.id,
      keyPrefix: record.prefix,
      quotaKeyId: record.id,
      projectId: project.id,
      models: ['standard'],
      requiredTags: ['eu'],
      expiresAt: Date.parse('2027-01-01'),
      onBudgetStoreDown: 'refuse',
      defaultMaxOutputTokens: 500,
    };
    expect(await keyring.find(secret)).toEqual(caller);
    expect(await otherKeyring.find(secret)).toEqual(caller);
  });

  test('finds a cached key without a database query', async () => {
    const { secret, record } = await keyring.issue(project.id, { name: 'ci' });
    await receiveNotifications();
    await keyring.find(secret);
    queries = [];
    expect(await keyring.find(secret)).toMatchObject({ keyPrefix: record.prefix });
    expect(queries).toEqual([]);
  });

  test('rejects a key with a wrong checksum without a database query', async () => {
    await expect(keyring.find('sk-gw-abcdefgh-nonsense')).rejects.toEqual(invalid);
    expect(queries).toEqual([]);
    const { secret } = generateSecret();
    await expect(keyring.find(secret)).rejects.toEqual(invalid);
    await expect(keyring.find(secret)).rejects.toEqual(invalid);
    expect(queries.length).toBe(1);
  });

  test('rejects a key with a known prefix but a different secret', async () => {
    const { record } = await keyring.issue(project.id, { name: 'ci' });
    const forged = generateSecret().secret;
    await database().query('update virtual_keys set prefix = $2::text where id = $1::uuid', [record.id, forged.slice(6, 14)]);
    await expect(keyring.find(forged)).rejects.toEqual(invalid);
  });

  test('finds a cached key synchronously, unless it is revoked or the secret is wrong', async () => {
    const { secret, record } = await keyring.issue(project.id, { name: 'ci' });
    expect(keyring.findCached(secret)).toBeNull();
    const caller = await keyring.find(secret);
    expect(keyring.findCached(secret)).toEqual(caller);
    expect(keyring.findCached(`${secret.slice(0, -1)}${secret.endsWith('a') ? 'b' : 'a'}`)).toBeNull();
    await keyring.revoke(project.id, record.prefix);
    await expect(keyring.find(secret)).rejects.toEqual(invalid);
    expect(() => keyring.findCached(secret)).toThrow(expect.objectContaining({ code: 'invalid_key' }));
  });

  test('rejects a revoked key immediately, and after a notification in other processes', async () => {
    const { secret, record } = await keyring.issue(project.id, { name: 'ci' });
    await Promise.all([keyring.find(secret), otherKeyring.find(secret)]);
    const revoked = await keyring.revoke(project.id, record.prefix);
    expect(revoked).toMatchObject({ prefix: record.prefix, revokedAt: start });
    await expect(keyring.find(secret)).rejects.toEqual(invalid);
    // The clock does not advance, so only the notification can invalidate the key.
    await until(() => isRejected(otherKeyring, secret));
    now += 5_000;
    expect(await keyring.revoke(project.id, record.prefix)).toMatchObject({ revokedAt: start });
  });

  test('a key expires at the exact time even if it is cached', async () => {
    const { secret } = await keyring.issue(project.id, { name: 'ci', expires_at: '2026-11-20T10:00:05Z' });
    await receiveNotifications();
    await keyring.find(secret);
    now += 4_999;
    expect(await keyring.find(secret)).toMatchObject({ projectId: project.id });
    now += 1;
    await expect(keyring.find(secret)).rejects.toEqual(invalid);
  });

  test('accepts the old key during the grace period after a rotation', async () => {
    const settings = {
      name: 'ci',
      models: ['standard'],
      required_tags: ['eu', 'zero-retention'],
      ceilings: { rpm: 60, cost: 0.5 },
      windows: { cost: 'total' },
      expires_at: '2027-01-01T00:00:00Z',
      on_budget_store_down: 'refuse',
      default_max_output_tokens: 500,
    };
    const old = await keyring.issue(project.id, settings);
    const fresh = await keyring.rotate(project.id, old.record.prefix, { grace_seconds: 60 });
    const { name, models, requiredTags, ceilings, expiresAt } = old.record;
    expect(requiredTags).toEqual(['eu', 'zero-retention']);
    expect(fresh.record).toMatchObject({
      name,
      models,
      requiredTags,
      ceilings,
      expiresAt,
      onBudgetStoreDown: 'refuse',
      defaultMaxOutputTokens: 500,
    });
    expect(fresh.secret).not.toBe(old.secret);
    expect(fresh.secret).toContain(`sk-gw-${fresh.record.prefix}-`);
    expect((await keyring.list(project.id)).map(({ id }) => id).sort()).toEqual([old.record.id, fresh.record.id].sort());
    await Promise.all([keyring.find(old.secret), keyring.find(fresh.secret)]);
    const extend = (expiresAt: string | null) => keyring.change(project.id, old.record.prefix, { expires_at: expiresAt });
    for (const expiresAt of [null, new Date(now + 60_001).toISOString()])
      await expect(extend(expiresAt)).rejects.toMatchObject({ code: 'conflict', message: expect.stringContaining('was rotated') });
    await extend(new Date(now + 50_000).toISOString());
    now += 50_000;
    await expect(async () => keyring.find(old.secret)).rejects.toEqual(invalid);
    await keyring.find(fresh.secret);
  });

  test('a pass for /my-key is valid until it expires or its key is revoked', async () => {
    const { secret, record } = await keyring.issue(project.id, { name: 'ci' });
    const endsAt = start + 60_000;
    const pass = await keyring.issuePass(secret, endsAt);
    expect(pass).not.toContain(secret.slice(15));
    expect(await otherKeyring.findByPass(pass)).toMatchObject({ endsAt, record: { id: record.id }, caller: { keyId: record.id } });
    const { secret: another } = await keyring.issue(project.id, { name: 'another' });
    const signature = (await keyring.issuePass(another, endsAt)).split('.')[2];
    for (const forged of [
      pass.slice(0, -1),
      `${record.prefix}.${endsAt}.${signature}`,
      `${record.prefix}.${endsAt + 1}.${pass.split('.')[2]}`,
    ])
      await expect(otherKeyring.findByPass(forged)).rejects.toEqual(invalid);
    await expect(keyring.issuePass(`${secret}x`, endsAt)).rejects.toEqual(invalid);
    now = endsAt;
    await expect(otherKeyring.findByPass(pass)).rejects.toEqual(invalid);
    now = start;
    await keyring.revoke(project.id, record.prefix);
    await expect(otherKeyring.findByPass(pass)).rejects.toEqual(invalid);
    await expect(keyring.issuePass(secret, endsAt)).rejects.toEqual(invalid);
  });

  test('rotating a key without a grace period revokes the old key immediately', async () => {
    const old = await keyring.issue(project.id, { name: 'ci' });
    await keyring.find(old.secret);
    await keyring.rotate(project.id, old.record.prefix, undefined);
    await expect(async () => keyring.find(old.secret)).rejects.toEqual(invalid);
    await expect(keyring.rotate(project.id, old.record.prefix, {})).rejects.toMatchObject({ code: 'conflict' });
  });

  test('two simultaneous rotations of a key create only one successor', async () => {
    const old = await keyring.issue(project.id, { name: 'ci' });
    const results = await Promise.allSettled([
      keyring.rotate(project.id, old.record.prefix, {}),
      otherKeyring.rotate(project.id, old.record.prefix, {}),
    ]);
    expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
  });

  test("changing a key's ceilings also changes the ceilings of a successor that is still being created", async () => {
    const old = await keyring.issue(project.id, { name: 'ci', ceilings: { calls: 5 } });
    const inserted = Promise.withResolvers<void>();
    const gate = Promise.withResolvers<void>();
    const slow: Database = {
      ...database(),
      transaction: (work) =>
        database().transaction(async (tx) => {
          const result = await work(tx);
          inserted.resolve();
          await gate.promise;
          return result;
        }),
    };
    const rotated = createKeyring({ database: slow, clock }).rotate(project.id, old.record.prefix, { grace_seconds: 60 });
    await inserted.promise;
    const changed = otherKeyring.change(project.id, old.record.prefix, { ceilings: { calls: 2 } });
    // The change now waits for the rotation, or will see its result.
    await setTimeout(100);
    gate.resolve();
    const { record } = await rotated;
    await changed;
    expect((await keyring.read(project.id, record.prefix)).ceilings.calls.limit).toBe(2);
  });

  test("changing the name of a rotated key doesn't rename its successor", async () => {
    const old = await keyring.issue(project.id, { name: 'ci' });
    const fresh = await keyring.rotate(project.id, old.record.prefix, { grace_seconds: 60 });
    await keyring.change(project.id, fresh.record.prefix, { name: 'fresh' });
    await keyring.change(project.id, old.record.prefix, { name: 'old' });
    expect(await keyring.read(project.id, fresh.record.prefix)).toMatchObject({ name: 'fresh' });
    expect(await keyring.read(project.id, old.record.prefix)).toMatchObject({ name: 'old' });
  });

  test("returns 404 for a key that doesn't exist", async () => {
    const { prefix } = generateSecret();
    const notFound = { code: 'not_found' };
    await expect(keyring.read(project.id, prefix)).rejects.toMatchObject(notFound);
    await expect(keyring.change(project.id, prefix, { name: 'ci' })).rejects.toMatchObject(notFound);
    await expect(keyring.rotate(project.id, prefix, {})).rejects.toMatchObject(notFound);
    await expect(keyring.revoke(project.id, prefix)).rejects.toMatchObject(notFound);
  });

  test('a key can be rotated while its ceilings are being changed', async () => {
    for (let round = 0; round < 5; round += 1) {
      const first = await keyring.issue(project.id, { name: 'ci', ceilings: { calls: 5 } });
      const second = await keyring.rotate(project.id, first.record.prefix, { grace_seconds: 60 });
      const change = (prefix: string, calls: number) => otherKeyring.change(project.id, prefix, { ceilings: { calls } });
      const [rotated] = await Promise.all([
        keyring.rotate(project.id, second.record.prefix, { grace_seconds: 60 }),
        ...[1, 2, 3].flatMap((calls) => [change(first.record.prefix, calls), change(second.record.prefix, calls)]),
      ]);
      const limits = [first, second, rotated].map(
        async ({ record }) => (await keyring.read(project.id, record.prefix)).ceilings.calls.limit,
      );
      expect(new Set(await Promise.all(limits)).size).toBe(1);
    }
  });

  test('lists the keys of a project, newest first, without secrets', async () => {
    const first = await keyring.issue(project.id, { name: 'first', ceilings: { calls: 5 }, windows: { calls: 'day' } });
    now += 1;
    const second = await keyring.issue(project.id, { name: 'second' });
    expect(await keyring.list(project.id)).toEqual([second.record, first.record]);
    expect(first.record.ceilings.calls).toEqual({ limit: 5, window: 'day' });
    const other = (await createProjects({ database: database(), clock }).put(`other-${first.record.prefix}`, {})).project;
    expect(await keyring.list(other.id)).toEqual([]);
    await expect(keyring.revoke(other.id, first.record.prefix)).rejects.toMatchObject({ code: 'not_found' });
    await expect(keyring.rotate(other.id, first.record.prefix, {})).rejects.toMatchObject({ code: 'not_found' });
  });

  test("issuing a key returns 404 if the project doesn't exist", async () => {
    await expect(keyring.issue('0193a8f0-0000-7000-8000-000000000000', { name: 'ci' })).rejects.toMatchObject({ code: 'not_found' });
  });

  test("reads a key's ceilings from the cache, or from the database if they aren't cached", async () => {
    const { secret, record } = await keyring.issue(project.id, { name: 'ci', ceilings: { rpm: 60 } });
    await receiveNotifications();
    const caller = await keyring.find(secret);
    expect(await otherKeyring.getCeilings(caller)).toMatchObject(record.ceilings);
    queries = [];
    expect(await keyring.getCeilings(caller)).toMatchObject(record.ceilings);
    expect(queries).toEqual([]);
    await expect(keyring.getCeilings({ ...caller, keyPrefix: 'unknown0' })).rejects.toMatchObject({ code: 'not_found' });
  });

  describe('during a database outage', () => {
    test('returns keystore_unavailable for an uncached key during a database outage', async () => {
      const { secret } = await keyring.issue(project.id, { name: 'ci' });
      failing = /from virtual_keys/;
      await expect(keyring.find(secret)).rejects.toMatchObject({ code: 'keystore_unavailable', status: 503 });
      failing = /from key_ceilings/;
      await expect(keyring.find(secret)).rejects.toMatchObject({ code: 'limits_unavailable', status: 503 });
      failing = null;
      await keyring.find(secret);
    });

    test('accepts a cached key for an hour of an outage, but not after it expires', async () => {
      const lasting = await keyring.issue(project.id, { name: 'lasting' });
      const short = await keyring.issue(project.id, { name: 'short', expires_at: '2026-11-20T10:30:00Z' });
      await receiveNotifications();
      await Promise.all([keyring.find(lasting.secret), keyring.find(short.secret)]);
      failing = /./;
      now += 29 * 60_000;
      expect(await keyring.find(lasting.secret)).toMatchObject({ projectId: project.id });
      expect(await keyring.find(short.secret)).toMatchObject({ projectId: project.id });
      now += 60_000;
      expect(await keyring.find(lasting.secret)).toMatchObject({ projectId: project.id });
      await expect(keyring.find(short.secret)).rejects.toEqual(invalid);
      now += 31 * 60_000;
      await expect(keyring.find(lasting.secret)).rejects.toMatchObject({ code: 'keystore_unavailable' });
    });
  });
});

async function isRejected(keyring: Keyring, secret: string): Promise<boolean> {
  return Promise.resolve()
    .then(() => keyring.find(secret))
    .then(
      () => false,
      () => true,
    );
}

async function until(condition: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 60_000;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error('the condition did not hold within a minute');
    await new Promise((resolve) => setImmediate(resolve));
  }
}
