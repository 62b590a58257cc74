/**
 * Routes of the account page, where people change their name and password, end their sessions, and manage personal
 * tokens.
 */
import { gatewayError } from '../../core/errors.ts';
import { mayHavePassword } from '../../people/accounts.ts';
import type { People } from '../../people/people.ts';
import type { FieldErrors } from '../frame/field-errors.ts';
import { type ActionRoute, type ConsoleContext, type ConsoleRoute, get, type PageContent, post } from '../frame/route.ts';
import { safePath } from '../frame/same-site.ts';
import { accountPath } from './account-path.ts';
import { accountView } from './page.ts';
import { createdTokenView, newTokenView } from './tokens-view.ts';

export function createAccountRoutes({ people }: { readonly people: People }): readonly ConsoleRoute[] {
  const { accounts, sessions, signIn, personalTokens } = people;

  const view = async (context: ConsoleContext, form?: URLSearchParams, errors?: FieldErrors): Promise<PageContent> => {
    const { id } = context.session.person;
    const [person, open, tokens] = await Promise.all([accounts.get(id), sessions.list(id), personalTokens.list(id)]);
    return accountView(context, { person, sessions: open, tokens, rejected: form && errors ? { form, errors } : null });
  };

  /** If the input is invalid, the account page is shown again with the error. */
  const action = (path: string, name: string, handle: ActionRoute['handle']): ActionRoute =>
    post(`/account/${path}`, { access: 'person', action: name, invalidForm: view }, handle);

  const rename = action('name', 'person.rename', async ({ session: { person } }, form) => {
    await accounts.rename(person.id, form.get('name') ?? '');
    return { kind: 'redirect', to: accountPath, notice: 'Your name was changed.' };
  });

  const display = action('display', 'person.display', async ({ session: { person } }, form) => {
    const preferences = { theme: form.get('theme') || null, time_zone: form.get('time_zone')?.trim() || null };
    await people.setPreferences(person.id, preferences);
    return { kind: 'redirect', to: accountPath, notice: 'Your display settings were saved.', audit: preferences };
  });

  /** The theme switch is in the menu of every page, so redirect back to the page that it was used on. */
  const switchTheme: ActionRoute = post(
    '/account/theme',
    { access: 'person', action: 'person.display' },
    async ({ session: { person } }, form) => {
      const preferences = { theme: form.get('theme') || null };
      await people.setPreferences(person.id, preferences);
      return { kind: 'redirect', to: safePath(form.get('next')), audit: preferences };
    },
  );

  const changePassword = action('password', 'person.password', async ({ session, remoteAddress }, form) => {
    const person = await accounts.get(session.person.id);
    const { id, email } = person;
    let oldHash: string | null = null;
    if (person.hasPassword) {
      const attempt = await signIn.withPassword({ email, password: form.get('current') ?? '', address: remoteAddress });
      if (attempt.kind === 'limited') throw gatewayError('bad_request', { message: 'too many failed attempts; try again in 15 minutes' });
      if (attempt.kind === 'refused') throw gatewayError('bad_request', { issues: [{ path: 'current', message: 'is wrong' }] });
      oldHash = attempt.passwordHash;
    } else if (!mayHavePassword(person)) {
      // People who use an identity provider can't set a password. Otherwise somebody with a stolen session could set
      // one, and keep access even after the identity provider has blocked the person.
      const message = person.hasOidc
        ? 'you sign in with an identity provider; ask for a sign-in link if you want to set a password'
        : 'you sign in with links until a deployment admin confirms your address';
      throw gatewayError('forbidden', { message });
    }
    if (form.get('password') !== form.get('repeated'))
      throw gatewayError('bad_request', { issues: [{ path: 'repeated', message: 'must be the same as the new password' }] });
    const revokeTokens = form.has('revoke_tokens');
    await accounts.setPassword(id, form.get('password') ?? '', { sessionId: session.id, oldHash, revokeTokens });
    const ended = revokeTokens ? 'your other sessions were signed out and your tokens were revoked' : 'your other sessions were signed out';
    return {
      kind: 'redirect',
      to: accountPath,
      notice: `Your password was changed, and ${ended}.`,
      audit: { revoked_tokens: revokeTokens },
    };
  });

  const revoke = action('sessions/:session/revoke', 'session.revoke', async ({ session: { person }, params }) => {
    if (!(await sessions.revoke(person.id, params.session ?? ''))) throw gatewayError('not_found', { message: 'no such session' });
    return { kind: 'redirect', to: accountPath, notice: 'The session was signed out.' };
  });

  const revokeOthers = action('sessions/revoke-others', 'session.revoke_others', async ({ session }) => {
    const count = await sessions.revokeAll(session.person.id, { except: session.id });
    const notice = count === 1 ? 'One session was signed out.' : `${count} sessions were signed out.`;
    return { kind: 'redirect', to: accountPath, notice, audit: { sessions: count } };
  });

  const createToken: ActionRoute = post(
    '/account/tokens',
    { access: 'person', action: 'token.create', invalidForm: async (context, form, errors) => newTokenView(context, { form, errors }) },
    async ({ session: { person }, origin }, form) => {
      const input = { name: form.get('name') ?? '', scopes: form.getAll('scopes'), days: Number(form.get('days')) };
      const { token, record } = await personalTokens.create(person.id, input);
      const { prefix, name, scopes } = record;
      return {
        kind: 'page',
        page: createdTokenView(record, token, `${origin}/mcp`),
        audit: { token: prefix, name, scopes, days: input.days },
      };
    },
  );

  const revokeToken: ActionRoute = post(
    '/account/tokens/:token/revoke',
    { access: 'person', action: 'token.revoke' },
    async ({ session: { person }, params }) => {
      const { prefix, name } = await personalTokens.revoke(person.id, params.token ?? '');
      return { kind: 'redirect', to: `${accountPath}#tokens`, notice: `The token ${name} was revoked.`, audit: { token: prefix, name } };
    },
  );

  return [
    get('/account', 'person', (context) => view(context)),
    get('/account/tokens/new', 'person', async (context) => newTokenView(context)),
    ...[rename, display, switchTheme, changePassword, revokeOthers, revoke, createToken, revokeToken],
  ];
}
