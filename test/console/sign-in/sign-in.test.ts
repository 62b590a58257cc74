import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { systemClock } from '../../../src/core/time.ts';
import { createAudit } from '../../../src/people/audit.ts';
import { createPeople, type People } from '../../../src/people/people.ts';
import { uniqueEmail } from '../../people/rows.ts';
import { defaultYaml, shareGateway } from '../../support/gateway.ts';
import { type IdentityProvider, startIdentityProvider } from '../../support/identity-provider.ts';
import { createVisitor, type Visitor } from './visitor.ts';

const publicUrl = 'https://gateway.example';
const client = { id: 'console', secret: 'client-secret', redirectUri: `${publicUrl}/console/sign-in/oidc/callback` };
let provider: IdentityProvider;
beforeAll(async () => {
  provider = await startIdentityProvider(client);
});
afterAll(() => provider.close());

const gateway = shareGateway({
  database: 'any',
  yaml: (vendorUrl, deadUrl) => `${defaultYaml(vendorUrl, deadUrl)}
public_url: ${publicUrl}/
oidc: { issuer: "${provider.issuer}", client_id: ${client.id}, client_secret: ${client.secret}, allowed_domains: [example.org] }
`,
});

const password = 'correct horse battery';
const people = (): People => createPeople({ database: gateway().database, clock: systemClock });
const visit = (headers?: Record<string, string>): Visitor => createVisitor(gateway().url, headers);
/** As a proxy that ends TLS forwards requests. */
const overHttps = () => visit({ 'x-forwarded-proto': 'https', 'x-forwarded-host': 'gateway.example' });
const submitSignIn = (visitor: Visitor, fields: Record<string, string>, next = '') =>
  visitor.submit(`/console/sign-in?next=${encodeURIComponent(next)}`, '/console/sign-in', fields);
const isSignedIn = async (visitor: Visitor) => (await visitor.get('/console/account')).status === 200;

describe('sign-in with a password', () => {
  test('starts a new session and redirects to the requested page', async () => {
    const email = uniqueEmail();
    const { id } = await people().accounts.create({ email, password });
    const visitor = visit();
    const response = await submitSignIn(visitor, { email, password }, '/console/account?a=b€');
    expect([response.status, response.headers.get('location')]).toEqual([303, '/console/account?a=b%E2%82%AC']);
    const first = visitor.cookies.get('gateway_session') ?? '';
    expect(await people().sessions.list(id)).toMatchObject([{ userAgent: 'visitor' }]);
    const again = createVisitor(gateway().url);
    again.cookies.set('gateway_session', first);
    const csrf = /name="csrf" value="([^"]+)"/.exec(await (await again.get('/console/account')).text())?.[1] ?? '';
    await again.post('/console/sign-in', { csrf, email, password });
    expect(again.cookies.get('gateway_session')).not.toBe(first);
    expect(await people().sessions.find(first)).toBeNull();
    expect(await people().sessions.list(id)).toHaveLength(1);
  });

  test('sets an HttpOnly session cookie that is also Secure over HTTPS', async () => {
    const email = uniqueEmail();
    await people().accounts.create({ email, password });
    const plain = visit();
    await submitSignIn(plain, { email, password });
    expect(plain.setCookies()).toEqual([
      expect.stringMatching(/^gateway_session=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax; Max-Age=2592000$/),
    ]);
    const secure = overHttps();
    await submitSignIn(secure, { email, password });
    expect(secure.setCookies()).toEqual([
      expect.stringMatching(/^__Host-gateway_session=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax; Max-Age=2592000; Secure$/),
    ]);
  });

  test("doesn't reveal whether the password was wrong or the account doesn't exist", async () => {
    const email = uniqueEmail();
    await people().accounts.create({ email, password });
    const pages = [];
    for (const fields of [
      { email, password: 'wrong password' },
      { email: uniqueEmail(), password },
    ]) {
      const response = await submitSignIn(visit(), fields, '//evil.example');
      expect(response.status).toBe(401);
      const text = await response.text();
      expect(text).toContain('name="next" value="/console"');
      pages.push(text.replaceAll(fields.email, '').replace(/name="csrf" value="[^"]+"/g, ''));
    }
    expect(pages[0]).toContain('The e-mail address or the password is wrong.');
    expect(pages[0]).toBe(pages[1]);
  });

  test('returns 429 after too many failed sign-in attempts', async () => {
    const email = uniqueEmail();
    await gateway().database.query(
      `insert into sign_in_failures select sha256(convert_to($1::text, 'UTF8')), 100, now() + interval '2 minutes'`,
      [`account ${email}`],
    );
    const response = await submitSignIn(visit(), { email, password });
    expect(response.status).toBe(429);
    expect(await response.text()).toContain('Try again in 2 minutes');
  });

  test('rejects a sign-in form without a CSRF token or from another site', async () => {
    expect((await visit().post('/console/sign-in', { email: 'a@b.example', password })).status).toBe(403);
    expect((await submitSignIn(visit({ 'sec-fetch-site': 'cross-site' }), { email: 'a@b.example', password })).status).toBe(403);
  });

  test('signing out ends the session and deletes its cookie', async () => {
    const email = uniqueEmail();
    const { id } = await people().accounts.create({ email, password });
    const visitor = visit();
    await submitSignIn(visitor, { email, password });
    const response = await visitor.submit('/console/account', '/console/sign-out', {});
    expect([response.status, response.headers.get('location')]).toEqual([303, '/console/sign-in']);
    expect(visitor.cookies.has('gateway_session')).toBe(false);
    expect(await people().sessions.list(id)).toEqual([]);
  });
});

describe('a sign-in link', () => {
  const link = '/console/sign-in/link';

  test('a sign-in link can be opened several times but used only once', async () => {
    const email = uniqueEmail();
    const { id } = await people().accounts.create({ email });
    const { secret } = await people().links.issue(id);
    const page = `${link}?token=${secret}`;
    for (let opened = 0; opened < 3; opened += 1) expect(await (await visit().get(page)).text()).toContain(email);
    const visitor = visit();
    expect((await visitor.submit(page, link, { password: 'short' })).status).toBe(422);
    expect((await visitor.submit(page, link, { password })).status).toBe(303);
    expect(await isSignedIn(visitor)).toBe(true);
    expect((await visit().get(page)).status).toBe(404);
    expect((await visitor.submit('/console/account', link, { token: secret })).status).toBe(403);
    expect((await submitSignIn(visit(), { email, password })).status).toBe(303);
  });

  test('only one of two browsers can sign in with the same link', async () => {
    const { id } = await people().accounts.create({ email: uniqueEmail() });
    const { secret } = await people().links.issue(id);
    // Both open the link before one of them uses it. A page of a used link has no form.
    const opened = [visit(), visit()].map(async (visitor) => ({
      visitor,
      form: await visitor.readForm(`${link}?token=${secret}`, link),
    }));
    const statuses = await Promise.all(
      (await Promise.all(opened)).map(async ({ visitor, form }) => (await visitor.post(link, form)).status),
    );
    expect(statuses.sort()).toEqual([303, 404]);
  });

  test("a sign-in link that isn't tied to a person creates a deployment admin", async () => {
    const { secret } = await people().links.issue(null);
    const visitor = visit();
    const email = uniqueEmail();
    const submit = (fields: Record<string, string>) =>
      visitor.submit(`${link}?token=${secret}`, link, { email, name: 'Ann <b>', ...fields });
    const mistaken = await submit({ password: 'short' });
    expect(mistaken.status).toBe(422);
    const text = await mistaken.text();
    expect(text).toContain('Password: must have at least 12 characters.');
    expect(text).toMatch(/name="password"[^>]* aria-invalid="true"/);
    expect(text).toContain('value="Ann &lt;b&gt;"');
    expect((await submit({ password })).status).toBe(303);
    expect(await people().accounts.findByEmail(email)).toMatchObject({ isAdmin: true, name: 'Ann <b>' });
    expect(await isSignedIn(visitor)).toBe(true);
  });
});

describe('sign-in with an identity provider', () => {
  /** Goes to the provider, signs in there, and comes back. */
  const signInAs = async (login: string, visitor = overHttps()) => {
    const begun = await visitor.get('/console/sign-in/oidc?next=%2Fconsole%2Faccount');
    expect(begun.status).toBe(303);
    const callback = await provider.signIn(begun.headers.get('location') ?? '', login);
    expect(callback.origin).toBe(publicUrl);
    return { visitor, callback, response: await visitor.get(callback.pathname + callback.search) };
  };

  test("matches a person by verified e-mail address first, and later by the provider's subject id", async () => {
    const email = uniqueEmail();
    const { id } = await people().accounts.create({ email });
    provider.people.set('ann', { email, email_verified: true, name: 'Ann' });
    const { response, visitor } = await signInAs('ann');
    expect([response.status, response.headers.get('location')]).toEqual([303, '/console/account']);
    expect(visitor.cookies.has('__Host-gateway_oidc')).toBe(false);
    expect(await isSignedIn(visitor)).toBe(true);
    provider.people.set('ann', {});
    expect((await signInAs('ann')).response.status).toBe(303);
    const audit = createAudit({ database: gateway().database, clock: systemClock });
    expect(await audit.list({ personId: id, limit: 10 })).toMatchObject(
      Array(2).fill({ action: 'session.start', outcome: 'ok', detail: { method: 'oidc' } }),
    );
  });

  test('rejects unverified and unknown e-mail addresses', async () => {
    const known = uniqueEmail();
    await people().accounts.create({ email: known });
    provider.people.set('mallory', { email: known });
    const { response: unverified } = await signInAs('mallory');
    expect(unverified.status).toBe(403);
    expect(await unverified.text()).toContain('did not confirm your e-mail address. If you can, verify it there');
    provider.people.set('stranger', { email: uniqueEmail(), email_verified: true });
    const { response, visitor } = await signInAs('stranger');
    expect(response.status).toBe(403);
    expect(await response.text()).toContain('You have no access');
    expect(visitor.cookies.has('__Host-gateway_session')).toBe(false);
    provider.people.set('employee', { email: 'Employee@example.org', email_verified: true, name: 'Emp Loyee' });
    expect((await signInAs('employee')).response.status).toBe(303);
    expect(await people().accounts.findByEmail('employee@example.org')).toMatchObject({ name: 'Emp Loyee', isAdmin: false });
  });

  test("doesn't ask a disabled person to verify an e-mail address", async () => {
    const email = uniqueEmail();
    const { id } = await people().accounts.create({ email });
    provider.people.set('dora', { email, email_verified: true });
    expect((await signInAs('dora')).response.status).toBe(303);
    await people().accounts.change(id, { disabled: true });
    provider.people.set('dora', { email });
    const { response } = await signInAs('dora');
    expect([response.status, await response.text()]).toEqual([403, expect.stringContaining('does not accept your account')]);
  });

  test('rejects an OIDC callback from another browser or with a different state', async () => {
    provider.people.set('bob', { email: 'bob@example.org', email_verified: true });
    const { visitor, callback, response } = await signInAs('bob');
    expect(response.status).toBe(303);
    const path = callback.pathname + callback.search;
    expect((await overHttps().get(path)).status).toBe(400);
    expect((await visitor.get(path)).status).toBe(400);
    await visitor.get('/console/sign-in/oidc');
    expect((await visitor.get(path)).status).toBe(400);
  });

  test("shows the identity provider's name on the sign-in page", async () => {
    expect(await (await visit().get('/console/sign-in')).text()).toContain(`Sign in with ${new URL(provider.issuer).host}`);
  });
});

describe('the account page', () => {
  test('lets people change their name and password', async () => {
    const email = uniqueEmail();
    const { id } = await people().accounts.create({ email, password });
    const visitor = visit();
    await submitSignIn(visitor, { email, password });
    await people().sessions.start(id, { userAgent: 'Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0' });
    const text = await (await visitor.get('/console/account')).text();
    expect(text).toContain('Firefox on Linux');
    const page = '/console/account';
    expect((await visitor.submit(page, `${page}/name`, { name: 'New Name' })).status).toBe(303);
    const change = (fields: Record<string, string>) => visitor.submit(page, `${page}/password`, fields);
    const next = 'an even better password';
    const wrong = await change({ current: 'wrong', password: next, repeated: next });
    expect([wrong.status, await wrong.text()]).toEqual([422, expect.stringMatching(/name="current"[^>]* aria-invalid="true"/)]);
    const different = await change({ current: password, password: next, repeated: password });
    expect([different.status, await different.text()]).toEqual([422, expect.stringMatching(/name="repeated"[^>]* aria-invalid="true"/)]);
    expect((await change({ current: password, password: next, repeated: next })).status).toBe(303);
    expect(await people().sessions.list(id)).toMatchObject([{ userAgent: 'visitor' }]);
    expect(await people().accounts.get(id)).toMatchObject({ name: 'New Name' });
    expect(await people().signIn.withPassword({ email, password: next, address: '192.0.2.9' })).toMatchObject({ kind: 'ok' });
  });

  test('leaves no session of somebody who keeps signing in with the old password', async () => {
    const email = uniqueEmail();
    const { id } = await people().accounts.create({ email, password });
    const visitor = visit();
    await submitSignIn(visitor, { email, password });
    const intruder = visit();
    const form = await intruder.readForm('/console/sign-in', '/console/sign-in');
    let isChanged = false;
    const signIns = (async () => {
      for (;;) {
        const wasChanged = isChanged;
        const { status } = await intruder.post('/console/sign-in', { ...form, email, password });
        if (wasChanged) return status;
      }
    })();
    const next = 'an even better password';
    const page = '/console/account';
    const changed = await visitor.submit(page, `${page}/password`, { current: password, password: next, repeated: next });
    isChanged = true;
    expect(changed.status).toBe(303);
    expect(await signIns).toBe(401);
    expect(await people().sessions.list(id)).toHaveLength(1);
    expect(await isSignedIn(visitor)).toBe(true);
  });

  test("revokes a person's own sessions but not those of others", async () => {
    const email = uniqueEmail();
    const { id } = await people().accounts.create({ email, password });
    const { id: stranger } = await people().accounts.create({ email: uniqueEmail() });
    const visitor = visit();
    await submitSignIn(visitor, { email, password });
    const { secret } = await people().sessions.start(id, { userAgent: null });
    await people().sessions.start(stranger, { userAgent: null });
    const revoke = (sessionId: string) => visitor.submit('/console/account', `/console/account/sessions/${sessionId}/revoke`, {});
    const other = (await people().sessions.list(id)).find(({ userAgent }) => userAgent === null)?.id ?? '';
    expect((await revoke(other)).status).toBe(303);
    expect(await people().sessions.find(secret)).toBeNull();
    const csrf = /name="csrf" value="([^"]+)"/.exec(await (await visitor.get('/console/account')).text())?.[1] ?? '';
    const foreign = (await people().sessions.list(stranger))[0]?.id ?? '';
    expect((await visitor.post(`/console/account/sessions/${foreign}/revoke`, { csrf })).status).toBe(404);
    expect(await people().sessions.list(stranger)).toHaveLength(1);
  });
});
