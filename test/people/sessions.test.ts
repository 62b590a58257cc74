import { beforeEach, expect, test } from '@jest/globals';
import { deleteExpiredSignIns } from '../../src/people/delete-expired.ts';
import { createSessions, type Sessions, sessionIdleMs, sessionMaxMs } from '../../src/people/sessions.ts';
import { describeDatabases } from '../db/databases.ts';
import { disable, insertPerson } from './rows.ts';

describeDatabases('sessions', (database) => {
  const start = Date.parse('2026-11-20T10:00:00Z');
  let now = start;
  let sessions: Sessions;

  beforeEach(() => {
    now = start;
    sessions = createSessions({ database: database(), clock: { now: () => now } });
  });

  test('finds a session by the secret in its cookie without storing the secret', async () => {
    const person = await insertPerson(database(), { isAdmin: true });
    const { secret } = await sessions.start(person.id, { userAgent: 'Firefox' });
    expect(await sessions.find(secret)).toMatchObject({ person, createdAt: start, lastSeenAt: start });
    const rows = await database().query('select * from sessions where person_id = $1::uuid', [person.id]);
    expect(JSON.stringify(rows)).not.toContain(secret);
    expect(await sessions.find('x'.repeat(43))).toBeNull();
    expect(await sessions.find('')).toBeNull();
  });

  test('ends a session when a new sign-in replaces it', async () => {
    const { id } = await insertPerson(database());
    const old = await sessions.start(id, { userAgent: null });
    const rotated = await sessions.start(id, { userAgent: null, replaces: old.secret });
    expect(rotated.secret).not.toBe(old.secret);
    expect(await sessions.find(old.secret)).toBeNull();
    expect(await sessions.find(rotated.secret)).not.toBeNull();
  });

  test('ends a session when it has been idle or open for too long', async () => {
    const { id } = await insertPerson(database());
    const idle = await sessions.start(id, { userAgent: null });
    const used = await sessions.start(id, { userAgent: null });
    for (now = start; now < start + sessionMaxMs; now += sessionIdleMs / 2) expect(await sessions.find(used.secret)).not.toBeNull();
    expect(await sessions.find(idle.secret)).toBeNull();
    now = start + sessionMaxMs;
    expect(await sessions.find(used.secret)).toBeNull();
    expect(await sessions.list(id)).toEqual([]);
  });

  test('stores the last use of a session no more than once a minute', async () => {
    const { id } = await insertPerson(database());
    const { secret } = await sessions.start(id, { userAgent: null });
    const lastSeen = async () => (await sessions.list(id))[0]?.lastSeenAt;
    now += 59_999;
    await sessions.find(secret);
    expect(await lastSeen()).toBe(start);
    now += 1;
    await sessions.find(secret);
    expect(await lastSeen()).toBe(now);
  });

  test("doesn't let people see or end each other's sessions", async () => {
    const [{ id }, stranger] = [await insertPerson(database()), await insertPerson(database())];
    const started = [];
    for (const userAgent of ['a', 'b', 'c']) {
      now += 1_000;
      started.push(await sessions.start(id, { userAgent }));
    }
    const [c, b] = await sessions.list(id);
    expect([c?.userAgent, b?.userAgent]).toEqual(['c', 'b']);
    expect(await sessions.revoke(stranger.id, String(c?.id))).toBe(false);
    expect(await sessions.revoke(id, 'not an id')).toBe(false);
    expect(await sessions.revoke(id, String(c?.id))).toBe(true);
    expect(await sessions.find(String(started[2]?.secret))).toBeNull();
    expect(await sessions.revokeAll(id, { except: String(b?.id) })).toBe(1);
    expect((await sessions.list(id)).map(({ userAgent }) => userAgent)).toEqual(['b']);
    await sessions.end(String(started[1]?.secret));
    expect(await sessions.list(id)).toEqual([]);
  });

  test('deletes sessions that have ended', async () => {
    const { id } = await insertPerson(database());
    await sessions.start(id, { userAgent: 'old' });
    now += sessionIdleMs;
    await sessions.start(id, { userAgent: 'new' });
    const clock = { now: () => now };
    expect(await deleteExpiredSignIns(database(), clock)).toBeGreaterThan(0);
    expect(await deleteExpiredSignIns(database(), clock)).toBe(0);
    const rows = await database().query('select user_agent as agent from sessions where person_id = $1::uuid', [id]);
    expect(rows).toEqual([{ agent: 'new' }]);
  });

  test("ends a person's sessions when the account is disabled", async () => {
    const { id } = await insertPerson(database());
    const { secret } = await sessions.start(id, { userAgent: null });
    await disable(database(), id);
    expect(await sessions.find(secret)).toBeNull();
  });
});
