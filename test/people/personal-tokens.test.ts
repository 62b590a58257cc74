import { beforeEach, expect, test } from '@jest/globals';
import { createPersonalTokens, type PersonalTokens } from '../../src/people/personal-tokens.ts';
import { describeAnyDatabase } from '../db/databases.ts';
import { disable, insertPerson } from './rows.ts';

describeAnyDatabase('personal tokens', (database) => {
  const start = Date.parse('2026-11-20T10:00:00Z');
  const dayMs = 86_400_000;
  const input = { name: 'laptop', scopes: ['usage:read', 'settings:read'], days: 90 };
  let now = start;
  let tokens: PersonalTokens;

  beforeEach(() => {
    now = start;
    tokens = createPersonalTokens({ database: database(), clock: { now: () => now } });
  });

  test("finds a token's person and scopes without storing the token", async () => {
    const person = await insertPerson(database(), { isAdmin: true });
    const { token, record } = await tokens.create(person.id, input);
    expect(record).toMatchObject({
      name: 'laptop',
      scopes: ['settings:read', 'usage:read'],
      expiresAt: start + 90 * dayMs,
      lastUsedAt: null,
    });
    expect(await tokens.find(token)).toEqual({ person, record });
    const rows = await database().query('select * from personal_tokens where person_id = $1::uuid', [person.id]);
    expect(JSON.stringify(rows)).not.toContain(token.slice(-43));
    expect(await tokens.find(`${token.slice(0, -1)}${token.endsWith('A') ? 'B' : 'A'}`)).toBeNull();
    expect(await tokens.find('gwp_')).toBeNull();
  });

  test('records the last use of a token, but no more than once a minute', async () => {
    const { id } = await insertPerson(database());
    const { token } = await tokens.create(id, input);
    const useAt = async (time: number) => {
      now = time;
      await tokens.find(token);
      return (await tokens.list(id))[0]?.lastUsedAt;
    };
    expect(await useAt(start)).toBe(start);
    expect(await useAt(start + 59_999)).toBe(start);
    expect(await useAt(start + 60_000)).toBe(start + 60_000);
  });

  test('rejects a token that has expired or been revoked, or whose owner is disabled', async () => {
    const { id } = await insertPerson(database());
    const [short, revoked, other] = [
      await tokens.create(id, { ...input, days: 1 }),
      await tokens.create(id, input),
      await tokens.create(id, input),
    ];
    now = start + dayMs;
    expect(await tokens.find(short.token)).toBeNull();
    await expect(tokens.revoke((await insertPerson(database())).id, revoked.record.id)).rejects.toThrow('no such token');
    await tokens.revoke(id, revoked.record.id);
    await expect(tokens.revoke(id, revoked.record.id)).rejects.toThrow('no such token');
    expect(await tokens.find(revoked.token)).toBeNull();
    expect((await tokens.list(id)).map(({ prefix }) => prefix)).toEqual([other.record.prefix]);
    await disable(database(), id);
    expect(await tokens.find(other.token)).toBeNull();
  });

  test.each([
    ['an empty name', { name: ' ' }, 'name: must not be empty'],
    ['a line break in the name', { name: 'a\nb' }, 'name: must not contain control characters'],
    ['a missing scope', { scopes: [] }, 'scopes: choose at least one'],
    ['an unknown scope', { scopes: ['admin'] }, 'scopes.0: '],
    ['more than 90 days', { days: 91 }, 'days: '],
    ['days that are not a number', { days: Number.NaN }, 'days: '],
  ])('returns bad_request for a personal token with %s', async (_title, change, message) => {
    const { id } = await insertPerson(database());
    await expect(tokens.create(id, { ...input, ...change })).rejects.toMatchObject({
      code: 'bad_request',
      message: expect.stringContaining(message),
    });
    expect(await tokens.list(id)).toEqual([]);
  });

  test('limits each person to 50 valid tokens', async () => {
    const { id } = await insertPerson(database());
    for (let count = 0; count < 50; count += 1) await tokens.create(id, input);
    await expect(tokens.create(id, input)).rejects.toMatchObject({ code: 'conflict' });
    now = start + 90 * dayMs;
    await tokens.create(id, input);
  });
});
