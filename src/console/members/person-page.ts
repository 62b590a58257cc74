/** Shows admins the account and sessions of a person, with a button for each action that they may take. */
import type { PersonRecord } from '../../people/accounts.ts';
import type { SessionRecord } from '../../people/sessions.ts';
import { actionButton, ago, badge, card, definitions, section, table, time } from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import type { ConsoleContext, PageContent } from '../frame/route.ts';

export function personPage(context: ConsoleContext, person: PersonRecord, sessions: readonly SessionRecord[]): PageContent {
  const { zone, now } = context;
  const path = `/console/admin/people/${person.id}`;
  const isSelf = person.id === context.session.person.id;
  const isDisabled = person.disabledAt !== null;
  const buttons = html`${isDisabled ? '' : actionButton({ context, action: `${path}/sign-in-link`, label: 'Sign-in link', about: `for ${person.name}` })}${
    isSelf
      ? ''
      : html`${
          person.onlyProject === null
            ? actionButton({
                context,
                action: `${path}/admin`,
                label: person.isAdmin ? 'Remove admin' : 'Make admin',
                values: { admin: person.isAdmin ? 'no' : 'yes' },
              })
            : actionButton({ context, action: `${path}/confirm`, label: 'Confirm' })
        }${actionButton({
          context,
          action: `${path}/disabled`,
          label: isDisabled ? 'Enable' : 'Disable',
          values: { disabled: isDisabled ? 'no' : 'yes' },
          danger: !isDisabled,
        })}`
  }`;
  return {
    kind: 'page',
    title: person.name,
    breadcrumbs: [{ label: 'People', href: '/console/admin/people' }],
    actions: buttons,
    content: html`${card(
      definitions([
        ['E-mail address', person.email],
        ['State', personBadges(person)],
        ['Signs in with', signInMethods(person)],
        ...(person.onlyProject === null ? [] : [['Only in project', person.onlyProject] as const]),
        ['Created', time(person.createdAt, zone)],
        ...(isDisabled ? [['Disabled', time(person.disabledAt, zone)] as const] : []),
        ['Times', zone],
      ]),
    )}
${section(
  'Sessions',
  table<SessionRecord>({
    caption: 'Sessions',
    rows: sessions,
    empty: 'The person is not signed in.',
    columns: [
      { label: 'Browser', value: ({ userAgent }) => userAgent, grow: true },
      { label: 'Signed in', value: ({ createdAt }) => time(createdAt, zone, 'minute') },
      { label: 'Last request', value: ({ lastSeenAt }) => ago(lastSeenAt, now, zone) },
      {
        label: 'Action',
        align: 'end',
        value: ({ id }) =>
          id === context.session.id
            ? 'this session'
            : actionButton({ context, action: `${path}/sessions`, label: 'End', values: { session: id }, danger: true }),
      },
    ],
  }),
  sessions.some(({ id }) => id !== context.session.id)
    ? { actions: actionButton({ context, action: `${path}/sessions`, label: isSelf ? 'End all others' : 'End all', danger: true }) }
    : {},
)}`,
  };
}

export function personBadges({ isAdmin, disabledAt, onlyProject }: PersonRecord): Html {
  return html`${disabledAt === null ? badge('active', 'good') : badge('disabled', 'bad')}${isAdmin ? html` ${badge('admin', 'accent')}` : ''}${onlyProject === null ? '' : html` ${badge('not confirmed', 'warning')}`}`;
}

export function signInMethods({ hasPassword, hasOidc }: PersonRecord): string {
  const methods = [hasPassword && 'password', hasOidc && 'identity provider'].filter((method) => method !== false);
  return methods.length === 0 ? 'Sign-in link' : methods.join(', ');
}
