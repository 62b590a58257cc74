import { beforeEach, expect, test } from '@jest/globals';
import { findPersonOf } from '../../src/people/identity.ts';
import { hashPassword, verifyPassword } from '../../src/people/password.ts';
import { createPeople, type People } from '../../src/people/people.ts';
import { describeDatabases } from '../db/databases.ts';
import { personOf, uniqueEmail } from './rows.ts';

const password = 'correct horse battery';

test('hashes passwords with argon2id in PHC format', async () => {
  const hash = await hashPassword(password);
  expect(hash).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$[\w+/]{22}\$[\w+/]{43}$/);
  expect(await verifyPassword(password, hash)).toBe(true);
  expect(await verifyPassword(`${password} `, hash)).toBe(false);
  expect(await verifyPassword(password, null)).toBe(false);
});

describeDatabases('accounts of people', (database) => {
  let now = 0;
  let people: People;
  let email = '';
  const address = '192.0.2.1';
  const hashOf = async (given: string): Promise<string> => {
    const result = await people.signIn.withPassword({ email, password: given, address });
    return result.kind === 'ok' ? result.passwordHash : '';
  };
  beforeEach(async () => {
    now = Date.parse('2026-11-20T10:00:00Z');
    people = createPeople({ database: database(), clock: { now: () => now } });
    email = uniqueEmail();
    await database().query('delete from sign_in_failures');
  });

  test("doesn't let two people have e-mail addresses that differ only in case", async () => {
    const person = await people.accounts.create({ email: ` ${email.toUpperCase()} `, admin: true });
    expect(person).toMatchObject({ email, name: email.split('@')[0], isAdmin: true, hasPassword: false, disabledAt: null });
    await expect(people.accounts.create({ email })).rejects.toMatchObject({ code: 'conflict' });
    expect(await people.accounts.findByEmail(email.toUpperCase())).toEqual(person);
  });

  test.each([
    [{ email: 'nobody' }, 'email: must be an e-mail address'],
    [{ email: 'a@b.example', password: 'short' }, 'password: must have at least 12 characters'],
    [{ email: 'a@b.example', password: 'aaaaaaaaaaaaaa' }, 'password: is too easy to guess'],
    [{ email: 'a@b.example', name: 'a\nb' }, 'name: must not contain control characters'],
  ])('rejects an account with %j: %s', async (input, message) => {
    await expect(people.accounts.create(input)).rejects.toMatchObject({ code: 'bad_request', message });
  });

  test('accepts only the right password', async () => {
    const { id } = await people.accounts.create({ email, password });
    const attempt = (change: object) => people.signIn.withPassword({ email, password, address, ...change });
    expect(await attempt({})).toMatchObject({ kind: 'ok', person: { id } });
    expect(await attempt({ email: email.toUpperCase() })).toMatchObject({ kind: 'ok' });
    const refused = { kind: 'refused' };
    expect(await attempt({ password: 'not the password' })).toEqual(refused);
    expect(await attempt({ email: uniqueEmail() })).toEqual(refused);
    expect(await attempt({ email: '\0\ud800' })).toEqual(refused);
    await people.accounts.change(id, { disabled: true });
    expect(await attempt({})).toEqual(refused);
  });

  test('blocks sign-ins to an account from one network for 15 minutes after ten failures', async () => {
    await people.accounts.create({ email, password });
    const other = createPeople({ database: database(), clock: { now: () => now } });
    const attempt = ({ signIn }: People, given: string) => signIn.withPassword({ email, password: given, address });
    const failures = await Promise.all(Array.from({ length: 10 }, (_, index) => attempt(index % 2 ? people : other, 'wrong password')));
    expect(new Set(failures.map(({ kind }) => kind))).toEqual(new Set(['refused']));
    expect(await attempt(other, password)).toEqual({ kind: 'limited', until: now + 15 * 60_000 });
    // An attacker does not lock out anybody else.
    const elsewhere = { email, password, address: '198.51.100.7' };
    expect(await people.signIn.withPassword(elsewhere)).toMatchObject({ kind: 'ok' });
    now += 15 * 60_000;
    expect(await attempt(people, password)).toMatchObject({ kind: 'ok' });
  });

  test('blocks sign-ins to an account after a hundred failures from many networks', async () => {
    await people.accounts.create({ email, password });
    await database().query(`insert into sign_in_failures select sha256(convert_to($1::text, 'UTF8')), 99, $2::timestamptz`, [
      `account ${email}`,
      new Date(now + 60_000),
    ]);
    const attempt = (given: string, from: string) => people.signIn.withPassword({ email, password: given, address: from });
    expect(await attempt('wrong password', '203.0.113.1')).toEqual({ kind: 'refused' });
    expect(await attempt(password, '203.0.113.2')).toEqual({ kind: 'limited', until: now + 60_000 });
  });

  test('blocks a network after fifty failed sign-ins to any account', async () => {
    await people.accounts.create({ email, password });
    await database().query(`insert into sign_in_failures select sha256('address 2001:db8:0:7'), 49, $1::timestamptz`, [
      new Date(now + 60_000),
    ]);
    const attempt = (from: string, account = email) => people.signIn.withPassword({ email: account, password, address: from });
    expect(await attempt('2001:db8:0:7::1')).toMatchObject({ kind: 'ok' });
    expect(await attempt('2001:db8:0:7:8::1', uniqueEmail())).toEqual({ kind: 'refused' });
    expect(await attempt('2001:db8::7:0:0:0:2')).toEqual({ kind: 'limited', until: now + 60_000 });
    expect(await attempt('2001:db8:0:8::1')).toMatchObject({ kind: 'ok' });
  });

  test.each([
    ['a network', 'address 203.0.113.9', () => uniqueEmail()],
    ['an account from one address', 'account and address 203.0.113.9 ann@acme.example', () => 'ann@acme.example'],
  ])('stops storing sign-in attempts once %s is blocked', async (_name, key, createEmail) => {
    await database().query(`insert into sign_in_failures select sha256(convert_to($1::text, 'UTF8')), 100, $2::timestamptz`, [
      key,
      new Date(now + 60_000),
    ]);
    const attempt = () => people.signIn.withPassword({ email: createEmail(), password, address: '203.0.113.9' });
    const countRows = () => database().query('select count(*)::integer as rows from sign_in_failures');
    expect(await attempt()).toEqual({ kind: 'limited', until: now + 60_000 });
    const rows = await countRows();
    for (let index = 0; index < 10; index += 1) expect(await attempt()).toEqual({ kind: 'limited', until: now + 60_000 });
    expect(await countRows()).toEqual(rows);
  });

  test('ends the sessions, links and tokens of a disabled person', async () => {
    const { id } = await people.accounts.create({ email });
    const { secret } = await people.sessions.start(id, { userAgent: null });
    const link = await people.links.issue(id);
    const { token } = await people.personalTokens.create(id, { name: 'laptop', scopes: ['usage:read'], days: 1 });
    expect(await people.accounts.change(id, { disabled: true })).toMatchObject({ disabledAt: now });
    expect(await people.accounts.change(id, { disabled: false, name: 'Ann' })).toMatchObject({ disabledAt: null, name: 'Ann' });
    expect(await people.sessions.find(secret)).toBeNull();
    expect(await people.links.find(link.secret)).toBeNull();
    expect(await people.personalTokens.find(token)).toBeNull();
  });

  test("ends a person's other sessions and sign-in links after a password change", async () => {
    const { id } = await people.accounts.create({ email, password });
    const [link, unused] = [await people.links.issue(id), await people.links.issue(id)];
    const [mine, other] = [await people.sessions.start(id, { userAgent: null }), await people.sessions.start(id, { userAgent: null })];
    const current = {
      sessionId: (await people.sessions.find(mine.secret))?.id ?? '',
      oldHash: await hashOf(password),
      revokeTokens: false,
    };
    const next = 'a new and longer password';
    await expect(people.accounts.setPassword(id, 'short', current)).rejects.toMatchObject({
      code: 'bad_request',
    });
    await people.accounts.setPassword(id, next, current);
    expect(await people.sessions.find(mine.secret)).not.toBeNull();
    expect(await people.sessions.find(other.secret)).toBeNull();
    expect(await people.signIn.withPassword({ email, password: next, address })).toMatchObject({ kind: 'ok' });
    expect(await people.links.find(link.secret)).toBeNull();
    expect(await people.links.find(unused.secret)).toBeNull();
    const reset = await people.links.issue(id);
    await people.links.use(reset.secret, { email: '', name: '', password });
    expect(await people.sessions.list(id)).toEqual([]);
  });

  test('starts no session and sets no password if access has ended since the password was checked', async () => {
    const { id } = await people.accounts.create({ email, password });
    const start = async (passwordHash: string | null) => people.sessions.start(id, { userAgent: null, passwordHash });
    const oldHash = await hashOf(password);
    const mine = await start(oldHash);
    const sessionId = (await people.sessions.find(mine.secret))?.id ?? '';
    await people.accounts.setPassword(id, 'a new and longer password', { sessionId, oldHash, revokeTokens: false });
    const ended = { code: 'forbidden', status: 401, message: 'your account has changed in the meantime; sign in again' };
    await expect(start(oldHash)).rejects.toMatchObject(ended);
    const attempt = { sessionId, oldHash, revokeTokens: false };
    await expect(people.accounts.setPassword(id, 'a password of a thief', attempt)).rejects.toMatchObject(ended);
    const newHash = await hashOf('a new and longer password');
    await people.sessions.end(mine.secret);
    await expect(people.accounts.setPassword(id, 'a password of a thief', { ...attempt, oldHash: newHash })).rejects.toMatchObject(ended);
    await people.accounts.change(id, { disabled: true });
    await expect(start(newHash)).rejects.toMatchObject(ended);
    await expect(start(null)).rejects.toMatchObject(ended);
    await expect(people.links.issue(id)).rejects.toMatchObject({ code: 'conflict' });
    await expect(people.personalTokens.create(id, { name: 'x', scopes: ['usage:read'], days: 1 })).rejects.toMatchObject({
      code: 'conflict',
    });
    await people.accounts.remove(id);
    await expect(start(null)).rejects.toMatchObject(ended);
    await expect(people.links.issue(id)).rejects.toMatchObject({ code: 'conflict' });
    expect(await people.sessions.list(id)).toEqual([]);
  });

  test("doesn't let the last two admins demote or disable each other at the same time", async () => {
    await database().query('update people set is_admin = false');
    const admins = [
      await people.accounts.create({ email, admin: true }),
      await people.accounts.create({ email: uniqueEmail(), admin: true }),
    ];
    const changes = [{ admin: false }, { disabled: true }];
    const done = await Promise.allSettled(admins.map(({ id }, index) => people.accounts.change(id, changes[index], { keepAdmin: true })));
    expect(done.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect(done.find(({ status }) => status === 'rejected')).toMatchObject({ reason: { code: 'conflict' } });
    expect(await database().query('select 1 from people where is_admin and disabled_at is null')).toHaveLength(1);
  });

  test('revokes personal tokens when a password is set with a link', async () => {
    const { id } = await people.accounts.create({ email, password });
    const session = await people.sessions.start(id, { userAgent: null });
    const sessionId = (await people.sessions.find(session.secret))?.id ?? '';
    const createToken = () => people.personalTokens.create(id, { name: 'laptop', scopes: ['usage:read'], days: 1 });
    const kept = await createToken();
    await people.accounts.setPassword(id, 'a new and longer password', { sessionId, oldHash: await hashOf(password), revokeTokens: false });
    expect(await people.personalTokens.find(kept.token)).not.toBeNull();
    const oldHash = await hashOf('a new and longer password');
    await people.accounts.setPassword(id, 'another, longer password', { sessionId, oldHash, revokeTokens: true });
    expect(await people.personalTokens.find(kept.token)).toBeNull();
    expect(await people.sessions.find(session.secret)).not.toBeNull();
    const stolen = await createToken();
    await people.links.use((await people.links.issue(id)).secret, { email: '', name: '', password });
    expect(await people.personalTokens.find(stolen.token)).toBeNull();
    expect(await people.sessions.find(session.secret)).toBeNull();
  });

  test('keeps only the id of a deleted person in the audit log', async () => {
    const { id } = await people.accounts.create({ email: `0${email}` });
    await people.accounts.create({ email: `1${email}` });
    expect((await people.accounts.list({ limit: 1, after: `0${email}` })).map((person) => person.email)).toEqual([`1${email}`]);
    await people.sessions.start(id, { userAgent: null });
    await people.accounts.remove(id);
    await expect(people.accounts.get(id)).rejects.toMatchObject({ code: 'not_found' });
    expect(await people.sessions.list(id)).toEqual([]);
  });

  test('accepts a sign-in link only once, even with concurrent requests', async () => {
    const { id } = await people.accounts.create({ email });
    const { secret, expiresAt } = await people.links.issue(id);
    expect(await people.links.find(secret)).toMatchObject({ person: { id }, expiresAt });
    const use = () => people.links.use(secret, { email: '', name: '', password: '' });
    const results = await Promise.allSettled(Array.from({ length: 5 }, use));
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    await expect(use()).rejects.toMatchObject({ code: 'not_found' });
  });

  test('expires a sign-in link after a day', async () => {
    const { id } = await people.accounts.create({ email });
    const link = await people.links.issue(id);
    const use = ({ secret }: { secret: string }, given: string) => people.links.use(secret, { email: '', name: '', password: given });
    await expect(use(link, 'short')).rejects.toMatchObject({ code: 'bad_request' });
    expect(await use(link, password)).toMatchObject({ id, hasPassword: true });
    expect(await people.signIn.withPassword({ email, password, address })).toMatchObject({ kind: 'ok' });
    const old = await people.links.issue(id);
    now = old.expiresAt;
    await expect(use(old, '')).rejects.toMatchObject({ code: 'not_found' });
  });

  test("creates a deployment admin from a sign-in link that isn't tied to a person", async () => {
    const { secret } = await people.links.issue(null);
    const use = (change: object) => people.links.use(secret, { email, name: 'Ann', password, ...change });
    await expect(use({ password: '' })).rejects.toMatchObject({ code: 'bad_request' });
    await expect(use({ email: 'x' })).rejects.toMatchObject({ code: 'bad_request' });
    expect(await use({})).toMatchObject({ email, name: 'Ann', isAdmin: true, hasPassword: true });
  });

  test('finds a person by identity subject or verified e-mail and creates one for an allowed domain', async () => {
    const { id } = await people.accounts.create({ email });
    const identity = { issuer: 'https://id.example', subject: email, verifiedEmail: null, name: null };
    const signIn = (change: object, domains: string[] = []) => personOf(people.signIn.withOidc({ ...identity, ...change }, domains));
    expect(await signIn({})).toBeNull();
    expect(await signIn({ verifiedEmail: email.toUpperCase() })).toMatchObject({ id, hasOidc: true });
    expect(await signIn({ verifiedEmail: uniqueEmail() })).toMatchObject({ id });
    // The provider has reassigned the address.
    expect(await signIn({ subject: 'another', verifiedEmail: email })).toBeNull();
    const newcomer = { subject: uniqueEmail(), verifiedEmail: `x${uniqueEmail()}`, name: 'New' };
    expect(await signIn(newcomer, ['example.org'])).toBeNull();
    expect(await signIn(newcomer, ['example.com'])).toMatchObject({ name: 'New', isAdmin: false, email: newcomer.verifiedEmail });
    await people.accounts.change(id, { disabled: true });
    for (const verifiedEmail of [email, null])
      expect(await people.signIn.withOidc({ ...identity, verifiedEmail }, [])).toEqual({ kind: 'disabled' });
    // A disabled person does not become somebody else because of another address at the provider.
    const colleague = await people.accounts.create({ email: uniqueEmail() });
    expect(await signIn({ verifiedEmail: colleague.email })).toBeNull();
    expect(await findPersonOf(database(), { ...identity, verifiedEmail: colleague.email })).toBeNull();
    expect(await signIn({ verifiedEmail: `new-${email}` }, ['example.com'])).toBeNull();
  });

  test('refuses a disabled person who has never signed in with the identity provider', async () => {
    const { id } = await people.accounts.create({ email });
    await people.accounts.change(id, { disabled: true });
    const identity = { issuer: 'https://id.example', subject: email, verifiedEmail: email, name: null };
    expect(await people.signIn.withOidc(identity, ['example.com'])).toEqual({ kind: 'disabled' });
  });

  test('ignores an invalid name or e-mail address from an identity provider', async () => {
    const signIn = (change: object) =>
      personOf(
        people.signIn.withOidc({ issuer: 'https://id.example', subject: uniqueEmail(), verifiedEmail: null, name: null, ...change }, [
          'example.com',
        ]),
      );
    expect(await signIn({ verifiedEmail: email, name: 'A\0' })).toMatchObject({ name: email.split('@')[0] });
    expect(await signIn({ verifiedEmail: `a@b@example.com` })).toBeNull();
  });

  test("disables a person's other ways to sign in after their first sign-in with an identity provider", async () => {
    const { id } = await people.accounts.create({ email, password });
    const { secret } = await people.sessions.start(id, { userAgent: null });
    const link = await people.links.issue(id);
    const { token } = await people.personalTokens.create(id, { name: 'laptop', scopes: ['usage:read'], days: 1 });
    const identity = { issuer: 'https://id.example', subject: email, verifiedEmail: email, name: null };
    expect(await personOf(people.signIn.withOidc(identity, []))).toMatchObject({ id, hasPassword: false });
    expect(await people.sessions.find(secret)).toBeNull();
    expect(await people.links.find(link.secret)).toBeNull();
    expect(await people.personalTokens.find(token)).toBeNull();
  });
});
