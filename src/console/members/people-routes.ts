/**
 * Lets deployment admins list and create people, disable them or make them admins, create sign-in links, and end
 * sessions.
 */
import { gatewayError } from '../../core/errors.ts';
import type { PersonRecord } from '../../people/accounts.ts';
import type { People } from '../../people/people.ts';
import {
  actionButton,
  checkboxField,
  csvLink,
  csvRows,
  cutPage,
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
import type { ConsoleContext, ConsoleRoute, CsvValue, PageContent } from '../frame/route.ts';
import { personBadges, signInMethods } from './person-columns.ts';
import { personIdOf } from './person-id.ts';
import { personPage } from './person-page.ts';
import { signInLinkPage } from './sign-in-link.ts';

export interface PeopleRoutesDeps {
  readonly people: Pick<People, 'accounts' | 'links' | 'sessions'>;
  /** Returns the URL of a sign-in link. `origin` is the origin of the request. */
  readonly linkUrl: (origin: string, secret: string) => string;
}

const path = '/admin/people';
const url = `/console${path}`;
const pageSize = 50;

export function createPeopleRoutes({ people, linkUrl }: PeopleRoutesDeps): readonly ConsoleRoute[] {
  const { accounts, links, sessions } = people;

  const issueLink = async (context: ConsoleContext, person: PersonRecord): Promise<PageContent> => {
    const { secret, expiresAt } = await links.issue(person.id);
    return signInLinkPage(context, { person, url: linkUrl(context.url.origin, secret), expiresAt }, { label: 'People', href: url });
  };
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
    // Admins can't change their own account, so at least one admin can always sign in.
    if (personId === context.session.person.id) throw gatewayError('conflict', { message: 'another admin must change this for you' });
    const before = await accounts.get(personId);
    const { name } = await accounts.change(personId, input);
    const old = { admin: before.isAdmin, disabled: before.disabledAt !== null };
    const changed = Object.fromEntries(
      Object.entries(input).map(([member, to]) => [member, { from: member === 'admin' ? old.admin : old.disabled, to }]),
    );
    return { kind: 'redirect' as const, to: `${url}/${personId}`, notice: notice(name), audit: { person_id: personId, changed } };
  };

  return [
    { method: 'get', path, access: 'admin', handle: (context) => showPeople(context, people) },
    {
      method: 'get',
      path: `${path}.csv`,
      access: 'admin',
      handle: async () => ({
        kind: 'csv',
        fileName: 'people.csv',
        header: ['email', 'name', 'admin', 'disabled_at', 'created_at'],
        rows: csvRows({
          readPage: (after, limit) => accounts.list({ after: after ?? undefined, limit }),
          keyOf: ({ email }) => email,
          toCsv: csvRow,
        }),
      }),
    },
    { method: 'get', path: `${path}/new`, access: 'admin', handle: async (context) => newPersonPage(context, new URLSearchParams()) },
    {
      method: 'post',
      path,
      access: 'admin',
      action: 'person.create',
      async handle(context, form) {
        const name = form.get('name')?.trim() ?? '';
        const admin = form.has('admin');
        const person = await accounts.create({ email: form.get('email') ?? '', admin, ...(name !== '' && { name }) });
        return { kind: 'page', page: await issueLink(context, person), audit: { person_id: person.id, admin } };
      },
      invalidForm: async (context, form, errors) => newPersonPage(context, form, errors),
    },
    { method: 'get', path: `${path}/:person`, access: 'admin', handle: showPerson },
    {
      method: 'post',
      path: `${path}/:person/confirm`,
      access: 'admin',
      action: 'person.confirm',
      async handle(context) {
        const { onlyProject } = await accounts.get(personIdOf(context));
        const { person, isNew } = await accounts.confirm(personIdOf(context));
        const audit = { person_id: person.id, unconfirmed: personIdOf(context), project: onlyProject };
        if (isNew) return { kind: 'page', page: await issueLink(context, person), audit };
        return { kind: 'redirect', to: `${url}/${person.id}`, notice: `${person.name} is confirmed and had an account already.`, audit };
      },
      invalidForm: showPerson,
    },
    {
      method: 'post',
      path: `${path}/:person/admin`,
      access: 'admin',
      action: 'person.change',
      handle: (context, form) => {
        const admin = form.get('admin') === 'yes';
        return change(context, { admin }, (name) => `${name} is ${admin ? 'now' : 'no longer'} a deployment admin.`);
      },
      invalidForm: showPerson,
    },
    {
      method: 'post',
      path: `${path}/:person/disabled`,
      access: 'admin',
      action: 'person.change',
      handle: (context, form) => {
        const disabled = form.get('disabled') === 'yes';
        return change(context, { disabled }, (name) => `${name} can ${disabled ? 'no longer' : 'now'} sign in.`);
      },
      invalidForm: showPerson,
    },
    {
      method: 'post',
      path: `${path}/:person/sign-in-link`,
      access: 'admin',
      action: 'person.sign_in_link',
      async handle(context) {
        const person = await accounts.get(personIdOf(context));
        if (person.disabledAt !== null) throw gatewayError('conflict', { message: 'a disabled person cannot sign in' });
        return { kind: 'page', page: await issueLink(context, person), audit: { person_id: person.id } };
      },
      invalidForm: showPerson,
    },
    {
      method: 'post',
      path: `${path}/:person/sessions`,
      access: 'admin',
      action: 'session.revoke',
      async handle(context, form) {
        const personId = personIdOf(context);
        const session = form.get('session');
        const ended =
          session === null
            ? await sessions.revokeAll(personId, { except: context.session.id })
            : Number(await sessions.revoke(personId, session));
        const notice = ended === 1 ? 'One session was ended.' : `${ended} sessions were ended.`;
        return { kind: 'redirect', to: `${url}/${personId}`, notice, audit: { person_id: personId, session, ended } };
      },
    },
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
      hideCaption: true,
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
    hideCaption: true,
    rows: people,
    empty: '',
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
    hint: 'An owner of the project added the address. Confirm it when you know that the person has it: sessions and links from before end, and you get a new sign-in link for the person.',
  });
}

function newPersonPage(context: ConsoleContext, form: URLSearchParams, errors: FieldErrors = noErrors): PageContent {
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
          name: 'email',
          label: 'E-mail address',
          type: 'email',
          value: form.get('email'),
          error: errors.of('email'),
          required: true,
          autocomplete: 'off',
          autofocus: true,
        }),
        textField({ name: 'name', label: 'Name', value: form.get('name'), error: errors.of('name'), maxLength: 200, autocomplete: 'off' }),
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

function csvRow({ email, name, isAdmin, disabledAt, createdAt }: PersonRecord): CsvValue[] {
  return [email, name, isAdmin, disabledAt === null ? null : new Date(disabledAt).toISOString(), new Date(createdAt).toISOString()];
}
