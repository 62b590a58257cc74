/**
 * Pages for deployment admins to list, create and disable people, make them admins, create sign-in links and end
 * sessions.
 */
import { gatewayError } from '../../core/errors.ts';
import type { PersonRecord } from '../../people/accounts.ts';
import type { People } from '../../people/people.ts';
import {
  actionButton,
  allPages,
  checkboxField,
  csvFile,
  csvLink,
  cutPage,
  fillFields,
  pageParameter,
  pager,
  form as renderForm,
  section,
  table,
  textField,
  time,
} from '../frame/components.ts';
import { type FieldErrors, noErrors } from '../frame/field-errors.ts';
import { type Html, html } from '../frame/html.ts';
import { type ConsoleContext, type ConsoleRoute, get, type PageContent, post } from '../frame/route.ts';
import { personIdOf } from './person-id.ts';
import { personBadges, personPage, signInMethods } from './person-page.ts';
import { issueSignInLink } from './sign-in-link.ts';

const path = '/admin/people';
const url = `/console${path}`;
const pageSize = 50;

export function createPeopleRoutes({
  accounts,
  links,
  sessions,
}: Pick<People, 'accounts' | 'links' | 'sessions'>): readonly ConsoleRoute[] {
  const issueLink = (context: ConsoleContext, person: PersonRecord): Promise<PageContent> =>
    issueSignInLink(links, context, person, { label: 'People', href: url });
  const showPerson = async (context: ConsoleContext): Promise<PageContent> => {
    const person = await accounts.get(personIdOf(context));
    return personPage(context, person, await sessions.list(person.id));
  };
  const change = async (
    context: ConsoleContext,
    input: { readonly admin?: boolean; readonly disabled?: boolean },
    notice: (name: string) => string,
  ) => {
    const personId = personIdOf(context);
    // Admins can't change their own account, because the last one could lock everybody out.
    if (personId === context.session.person.id)
      throw gatewayError('conflict', { message: 'you cannot change this for your own account; ask another admin' });
    const before = await accounts.get(personId);
    const { name } = await accounts.change(personId, input, { keepAdmin: true });
    const old = { admin: before.isAdmin, disabled: before.disabledAt !== null };
    const changed = Object.fromEntries(
      Object.entries(input).map(([member, to]) => [member, { from: member === 'admin' ? old.admin : old.disabled, to }]),
    );
    return { kind: 'redirect' as const, to: `${url}/${personId}`, notice: notice(name), audit: { person_id: personId, changed } };
  };

  return [
    get(path, 'admin', (context) => showPeople(context, { accounts })),
    get(`${path}.csv`, 'admin', async () =>
      csvFile<PersonRecord>(
        'people.csv',
        {
          email: ({ email }) => email,
          name: ({ name }) => name,
          admin: ({ isAdmin }) => isAdmin,
          disabled_at: ({ disabledAt }) => (disabledAt === null ? null : new Date(disabledAt).toISOString()),
          created_at: ({ createdAt }) => new Date(createdAt).toISOString(),
        },
        allPages(
          (after, limit) => accounts.list({ after: after ?? undefined, limit }),
          ({ email }) => email,
        ),
      ),
    ),
    get(`${path}/new`, 'admin', (context) => newPersonPage(context, new URLSearchParams())),
    post(path, { access: 'admin', action: 'person.create', invalidForm: newPersonPage }, async (context, form) => {
      const name = form.get('name')?.trim() ?? '';
      const admin = form.has('admin');
      const person = await accounts.create({ email: form.get('email') ?? '', admin, ...(name !== '' && { name }) });
      return { kind: 'page', page: await issueLink(context, person), audit: { person_id: person.id, admin } };
    }),
    get(`${path}/:person`, 'admin', showPerson),
    post(`${path}/:person/confirm`, { access: 'admin', action: 'person.confirm', invalidForm: showPerson }, async (context) => {
      const { onlyProject } = await accounts.get(personIdOf(context));
      const { person, isNew } = await accounts.confirm(personIdOf(context));
      const audit = { person_id: person.id, unconfirmed: personIdOf(context), project: onlyProject };
      if (isNew) return { kind: 'page', page: await issueLink(context, person), audit };
      return { kind: 'redirect', to: `${url}/${person.id}`, notice: `${person.name} is confirmed and had an account already.`, audit };
    }),
    post(`${path}/:person/admin`, { access: 'admin', action: 'person.change', invalidForm: showPerson }, (context, form) => {
      const admin = form.get('admin') === 'yes';
      return change(context, { admin }, (name) => `${name} is ${admin ? 'now' : 'no longer'} a deployment admin.`);
    }),
    post(`${path}/:person/disabled`, { access: 'admin', action: 'person.change', invalidForm: showPerson }, (context, form) => {
      const disabled = form.get('disabled') === 'yes';
      return change(context, { disabled }, (name) => `${name} can ${disabled ? 'no longer' : 'now'} sign in.`);
    }),
    post(`${path}/:person/sign-in-link`, { access: 'admin', action: 'person.sign_in_link', invalidForm: showPerson }, async (context) => {
      const person = await accounts.get(personIdOf(context));
      return { kind: 'page', page: await issueLink(context, person), audit: { person_id: person.id } };
    }),
    post(`${path}/:person/sessions`, { access: 'admin', action: 'session.revoke' }, async (context, form) => {
      const personId = personIdOf(context);
      const session = form.get('session');
      const ended =
        session === null
          ? await sessions.revokeAll(personId, { except: context.session.id })
          : Number(await sessions.revoke(personId, session));
      const notice = ended === 1 ? 'One session was ended.' : `${ended} sessions were ended.`;
      return { kind: 'redirect', to: `${url}/${personId}`, notice, audit: { person_id: personId, session, ended } };
    }),
  ];
}

async function showPeople(context: ConsoleContext, { accounts }: Pick<People, 'accounts'>): Promise<PageContent> {
  const after = context.url.searchParams.get(pageParameter) ?? undefined;
  const page = await accounts.list({ after, limit: pageSize + 1 });
  const { shown, next } = cutPage(page, pageSize, ({ email }) => email);
  const unconfirmed = await accounts.listUnconfirmed();
  return {
    kind: 'page',
    title: 'People',
    actions: html`${csvLink(context)}<a class="button primary" href="${url}/new">New person</a>`,
    content: html`${table<PersonRecord>({
      caption: 'People',
      rows: shown,
      empty: 'Nobody has an account.',
      rowHref: ({ id }) => `${url}/${id}`,
      columns: [
        { label: 'Name', value: ({ name }) => name },
        { label: 'E-mail address', value: ({ email }) => email, grow: true },
        { label: 'State', value: personBadges },
        { label: 'Signs in with', value: signInMethods, wideOnly: true },
        { label: `Created (${context.zone})`, value: ({ createdAt }) => time(createdAt, context.zone, 'date'), wideOnly: true },
      ],
    })}${pager(context, next, { first: 'First', next: 'Next' })}${unconfirmed.length === 0 ? '' : unconfirmedSection(context, unconfirmed)}`,
  };
}

function unconfirmedSection(context: ConsoleContext, people: readonly PersonRecord[]): Html {
  const list = table<PersonRecord>({
    caption: 'Not confirmed',
    rows: people,
    rowHref: ({ id }) => `${url}/${id}`,
    columns: [
      { label: 'Name', value: ({ name }) => name },
      { label: 'E-mail address', value: ({ email }) => email, grow: true },
      { label: 'Only in project', value: ({ onlyProject }) => html`<code>${onlyProject}</code>` },
      { label: `Created (${context.zone})`, value: ({ createdAt }) => time(createdAt, context.zone, 'date'), wideOnly: true },
      {
        label: 'Action',
        align: 'end',
        value: ({ id, email }) => actionButton({ context, action: `${url}/${id}/confirm`, label: 'Confirm', about: email }),
      },
    ],
  });
  return section('Not confirmed', list, {
    hint: 'A project owner added this address. Only confirm it if you know that it belongs to this person. This ends the sessions and links that the account has now, and gives you a new sign-in link for the person.',
  });
}

async function newPersonPage(context: ConsoleContext, form: URLSearchParams, errors: FieldErrors = noErrors): Promise<PageContent> {
  const filled = fillFields(form, errors);
  return {
    kind: 'page',
    title: 'New person',
    breadcrumbs: [{ label: 'People', href: url }],
    content: renderForm({
      context,
      action: url,
      submit: 'Create person',
      cancelHref: url,
      fields: [
        textField({
          ...filled('email'),
          label: 'E-mail address',
          type: 'email',
          required: true,
          autocomplete: 'off',
          autofocus: true,
        }),
        textField({ ...filled('name'), label: 'Name', maxLength: 200, autocomplete: 'off' }),
        checkboxField({
          name: 'admin',
          label: 'Deployment admin',
          checked: form.has('admin'),
          hint: 'Owner of every project; manages people, projects and prices.',
        }),
      ],
    }),
  };
}
