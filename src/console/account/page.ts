import { mayHavePassword, type PersonRecord } from '../../people/accounts.ts';
import type { PersonalToken } from '../../people/personal-tokens.ts';
import { themes } from '../../people/preferences.ts';
import type { SessionRecord } from '../../people/sessions.ts';
import { actionButton, ago, badge, card, checkboxField, form, section, selectField, table, textField, time } from '../frame/components.ts';
import { type FieldErrors, noErrors, type SubmittedForm } from '../frame/field-errors.ts';
import { type Html, html } from '../frame/html.ts';
import type { ConsoleContext, PageContent } from '../frame/route.ts';
import { accountPath } from './account-path.ts';
import { tokenSection } from './tokens-view.ts';

interface AccountView {
  readonly person: PersonRecord;
  readonly sessions: readonly SessionRecord[];
  readonly tokens: readonly PersonalToken[];
  readonly rejected: SubmittedForm | null;
}

export function accountView(context: ConsoleContext, { person, sessions, tokens, rejected }: AccountView): PageContent {
  const content = html`${section('Profile', card(nameForm(context, person, rejected)), { hint: describePerson(person) })}
${section('Display', card(displayForm(context, rejected)))}
${mayHavePassword(person) ? section(person.hasPassword ? 'Change the password' : 'Set a password', card(passwordForm(context, person, { hasTokens: tokens.length > 0, errors: rejected?.errors ?? noErrors }))) : ''}
${section('Sessions', sessionTable(context, sessions), {
  hint: 'The browsers where you are signed in. A session ends after 7 days without use, and always after 30 days.',
  ...(sessions.length > 1 && {
    actions: actionButton({ context, action: `${accountPath}/sessions/revoke-others`, label: 'Sign out all others' }),
  }),
})}
${tokenSection(context, tokens)}`;
  return { kind: 'page', title: 'Account', content };
}

/** Returns e.g. `ann@example.com · deployment admin · signs in with a password`. */
function describePerson({ email, isAdmin, hasPassword, hasOidc, onlyProject }: PersonRecord): string {
  const ways = [...(hasPassword ? ['a password'] : []), ...(hasOidc ? ['an identity provider'] : [])];
  const signIn = `signs in with ${ways.length === 0 ? 'links' : ways.join(' or ')}`;
  const only = onlyProject === null ? [] : [`can only use ${onlyProject} until a deployment admin confirms the address`];
  return [email, ...(isAdmin ? ['deployment admin'] : []), signIn, ...only].join(' · ');
}

/** `rejected` contains the person's input if a form of the page was just submitted and rejected. */
function nameForm(context: ConsoleContext, { name }: PersonRecord, rejected: SubmittedForm | null): Html {
  const field = { name: 'name', value: rejected?.form.get('name') ?? name, error: rejected?.errors.of('name') };
  return form({
    context,
    action: `${accountPath}/name`,
    fields: [textField({ ...field, label: 'Name', required: true, maxLength: 200, autocomplete: 'name' })],
    submit: 'Save',
  });
}

const themeLabels = { light: 'Light', dark: 'Dark' } as const;

function displayForm(context: ConsoleContext, rejected: SubmittedForm | null): Html {
  const { theme, timeZone } = context.session.preferences;
  const own = rejected?.form.has('time_zone') ? rejected : null;
  return form({
    context,
    action: `${accountPath}/display`,
    fields: [
      selectField({
        ...{ name: 'theme', label: 'Theme', required: true, value: own ? own.form.get('theme') : theme, error: own?.errors.of('theme') },
        options: [{ value: '', label: 'As the system' }, ...themes.map((value) => ({ value, label: themeLabels[value] }))],
      }),
      textField({
        ...{ name: 'time_zone', label: 'Time zone', value: own ? own.form.get('time_zone') : timeZone, error: own?.errors.of('time_zone') },
        ...{ placeholder: 'As the project', maxLength: 64, autocomplete: 'off' },
        hint: 'For times and dates in the console. If you don’t choose one, each project uses its own reporting time zone.',
        suggestions: ['UTC', ...Intl.supportedValuesOf('timeZone')],
      }),
    ],
    submit: 'Save',
  });
}

function passwordForm(
  context: ConsoleContext,
  { email, hasPassword }: PersonRecord,
  { hasTokens, errors }: { readonly hasTokens: boolean; readonly errors: FieldErrors },
): Html {
  const password = (name: string) => ({ name, error: errors.of(name), type: 'password', required: true }) as const;
  const current = textField({ ...password('current'), label: 'Current password', autocomplete: 'current-password' });
  return form({
    context,
    action: `${accountPath}/password`,
    fields: [
      html`<input class="hidden" type="email" name="username" value="${email}" autocomplete="username" readonly tabindex="-1" aria-hidden="true">`,
      ...(hasPassword ? [current] : []),
      textField({ ...password('password'), label: 'New password', autocomplete: 'new-password', hint: 'At least 12 characters.' }),
      textField({ ...password('repeated'), label: 'New password again', autocomplete: 'new-password' }),
      ...(hasTokens
        ? [
            checkboxField({
              name: 'revoke_tokens',
              label: 'Also revoke my personal tokens',
              checked: true,
              hint: 'Somebody who knew your old password may have created a token. Programs that use your tokens will need new ones.',
            }),
          ]
        : []),
    ],
    submit: hasPassword ? 'Change the password' : 'Set the password',
  });
}

function sessionTable(context: ConsoleContext, sessions: readonly SessionRecord[]): Html {
  const isThis = ({ id }: SessionRecord): boolean => id === context.session.id;
  return table({
    caption: 'Sessions',
    rows: sessions,
    empty: 'You have no other sessions.',
    columns: [
      {
        label: 'Browser',
        grow: true,
        value: (row) => html`${describeBrowser(row.userAgent)}${isThis(row) ? html` ${badge('This session', 'accent')}` : ''}`,
      },
      { label: 'Last used', value: ({ lastSeenAt }) => ago(lastSeenAt, context.now, context.zone) },
      { label: `Signed in (${context.zone})`, value: ({ createdAt }) => time(createdAt, context.zone, 'minute'), wideOnly: true },
      { label: `Ends (${context.zone})`, value: ({ expiresAt }) => time(expiresAt, context.zone, 'minute'), wideOnly: true },
      {
        label: '',
        align: 'end',
        value: (row) =>
          isThis(row)
            ? ''
            : actionButton({
                context,
                action: `${accountPath}/sessions/${row.id}/revoke`,
                label: 'Sign out',
                about: describeBrowser(row.userAgent),
              }),
      },
    ],
  });
}

/** Returns e.g. `Firefox on Linux`. If we don't recognize the browser, we show the beginning of the header instead. */
function describeBrowser(userAgent: string | null): string {
  if (userAgent === null) return 'Unknown browser';
  // The order matters: all Chromium-based browsers also contain `Chrome/`, and all of those contain `Safari/`.
  const browser = ['Edg', 'OPR', 'Firefox', 'Chrome', 'Safari'].find((name) => userAgent.includes(`${name}/`));
  const system = ['Android', 'iPhone', 'iPad', 'Windows', 'Mac OS X', 'Linux'].find((name) => userAgent.includes(name));
  if (browser === undefined) return userAgent.slice(0, 60);
  const label = { Edg: 'Edge', OPR: 'Opera' }[browser] ?? browser;
  return system === undefined ? label : `${label} on ${system === 'Mac OS X' ? 'macOS' : system}`;
}
