/**
 * Lists, adds and removes members of a project and changes their roles. If an owner adds an address, the response
 * doesn't reveal whether the deployment already has an account with it. Deployment admins can see all accounts anyway.
 * If they add an address, we use the existing account, or create one if there is none.
 */
import { gatewayError } from '../../core/errors.ts';
import { parseJson } from '../../core/json/parse.ts';
import type { Member } from '../../people/members.ts';
import type { People } from '../../people/people.ts';
import type { Role } from '../../people/person.ts';
import {
  actionButton,
  badge,
  card,
  csvLink,
  fillFields,
  form as renderForm,
  section,
  selectField,
  table,
  textField,
  time,
} from '../frame/components.ts';
import { type FieldErrors, noErrors } from '../frame/field-errors.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import { type ActionRoute, type ConsoleContext, type ConsoleRoute, type CsvValue, get, type PageContent, post } from '../frame/route.ts';
import { personIdOf } from './person-id.ts';
import { issueSignInLink, type LinkRecipient } from './sign-in-link.ts';

export function createMemberRoutes({ accounts, links, members }: Pick<People, 'accounts' | 'links' | 'members'>): readonly ConsoleRoute[] {
  const showMembers = async (context: ConsoleContext, form = new URLSearchParams(), errors = noErrors): Promise<PageContent> => ({
    kind: 'page',
    title: 'Members',
    actions: csvLink(context),
    content: html`<p class="lead">Members see everything in the project. Owners also change keys, routing, rules and members. Deployment admins act as owners.</p>
${memberTable(context, await members.list(context.project.id))}${context.role === 'owner' ? addForm(context, form, errors) : ''}`,
  });
  const showErrors: ActionRoute['invalidForm'] = (context, _form, errors) => showMembers(context, undefined, errors);

  return [
    get('/members', 'member', (context) => showMembers(context)),
    get('/members.csv', 'member', async ({ project }) => {
      const list = await members.list(project.id);
      const rows = list.map(({ email, name, role, isDisabled, createdAt }): CsvValue[] => [
        email,
        name,
        role,
        isDisabled,
        new Date(createdAt).toISOString(),
      ]);
      return {
        kind: 'csv',
        fileName: `members-${project.slug}.csv`,
        header: ['email', 'name', 'role', 'disabled', 'member_since'],
        rows,
      };
    }),
    post('/members', { access: 'owner', action: 'member.add', invalidForm: showMembers }, async (context, form) => {
      const email = form.get('email') ?? '';
      const name = form.get('name')?.trim() || undefined;
      const role = parseRole(form);
      const to = projectPath(context, '/members');
      if (!context.session.person.isAdmin) {
        const member = await members.invite(context.project.id, { email, name }, role);
        const audit = { person_id: member.personId, role, created: true };
        return { kind: 'page', page: await issueLink(context, { ...member, id: member.personId }), audit };
      }
      const known = await accounts.findByEmail(email);
      if (known !== null && (await members.list(context.project.id)).some((member) => member.email === known.email))
        throw gatewayError('conflict', {
          issues: [{ path: 'email', message: 'is already a member; change the role in the list instead' }],
        });
      const person = known ?? (await accounts.create({ email, ...(name !== undefined && { name }) }));
      await members.put(context.project.id, person.id, role);
      const audit = { person_id: person.id, role, created: known === null };
      if (known !== null) return { kind: 'redirect', to, notice: `${person.name} is now ${withArticle(role)}.`, audit };
      return { kind: 'page', page: await issueLink(context, person), audit };
    }),
    post('/members/:person/role', { access: 'owner', action: 'member.change', invalidForm: showErrors }, async (context, form) => {
      const role = parseRole(form);
      const personId = personIdOf(context);
      const { member, previous } = await members.changeRole(context.project.id, personId, role);
      const audit = { person_id: personId, role: { from: previous, to: role } };
      return { kind: 'redirect', to: projectPath(context, '/members'), notice: `${member.name} is now ${withArticle(role)}.`, audit };
    }),
    post('/members/:person/sign-in-link', { access: 'owner', action: 'person.sign_in_link', invalidForm: showErrors }, async (context) => {
      const member = await requireMember(context, personIdOf(context));
      if (member.isConfirmed)
        throw gatewayError('conflict', {
          message: 'this account is confirmed, so only a deployment admin can create a sign-in link for it',
        });
      const page = await issueLink(context, { ...member, id: member.personId });
      return { kind: 'page', page, audit: { person_id: member.personId } };
    }),
    post('/members/:person/remove', { access: 'owner', action: 'member.remove', invalidForm: showErrors }, async (context) => {
      const member = await members.remove(context.project.id, personIdOf(context));
      const { personId, name, role } = member;
      const isSelf = personId === context.session.person.id && !context.session.person.isAdmin;
      const audit = { person_id: personId, role };
      const notice = `${name} is no longer a member.`;
      // If owners remove themselves, don't offer an undo button, because only owners can add members.
      if (isSelf) return { kind: 'redirect', to: '/console', notice, audit };
      const { email, isConfirmed, createdAt } = member;
      const removed = JSON.stringify({ personId, email, name, role, isConfirmed, createdAt });
      const undo = { action: projectPath(context, '/members/restore'), values: { removed } };
      return { kind: 'redirect', to: projectPath(context, '/members'), notice, undo, audit };
    }),
    post('/members/restore', { access: 'owner', action: 'member.restore', invalidForm: showErrors }, async (context, form) => {
      const member = await members.restore(context.project.id, parseJson(form.get('removed') ?? ''));
      const audit = { person_id: member.personId, role: member.role };
      if (!member.isConfirmed) {
        // The account was unconfirmed, so we deleted it together with its sign-in links when the member was removed.
        // `restore` has created a new account, which needs a new link.
        return { kind: 'page', page: await issueLink(context, { ...member, id: member.personId }), audit };
      }
      const notice = `${member.name} is ${withArticle(member.role)} again.`;
      return { kind: 'redirect', to: projectPath(context, '/members'), notice, audit };
    }),
  ];

  async function requireMember({ project }: ConsoleContext, personId: string): Promise<Member> {
    const found = (await members.list(project.id)).find((member) => member.personId === personId);
    if (!found) throw gatewayError('not_found', { message: 'no such member' });
    return found;
  }

  function issueLink(context: ConsoleContext, person: LinkRecipient): Promise<PageContent> {
    return issueSignInLink(links, context, person, { label: 'Members', href: projectPath(context, '/members') });
  }
}

function memberTable(context: ConsoleContext, members: readonly Member[]): Html {
  const isOwner = context.role === 'owner';
  return table<Member>({
    caption: 'Members',
    rows: members,
    empty: 'Only deployment admins can open this project. Add its first owner below.',
    columns: [
      {
        label: 'Name',
        value: ({ name, personId }) =>
          html`<strong>${name}</strong>${personId === context.session.person.id ? html` <span class="muted">you</span>` : ''}`,
      },
      { label: 'E-mail address', value: ({ email }) => email, grow: true },
      {
        label: 'Role',
        value: ({ role, isDisabled, isConfirmed }) =>
          html`${badge(role, role === 'owner' ? 'accent' : 'neutral')}${isDisabled ? html` ${badge('disabled', 'warning')}` : ''}${isConfirmed ? '' : html` ${badge('not confirmed')}`}`,
      },
      { label: 'Member since', value: ({ createdAt }) => time(createdAt, context.zone, 'date'), wideOnly: true },
      ...(isOwner ? [{ label: 'Actions', align: 'end' as const, value: (member: Member) => memberActions(context, member) }] : []),
    ],
  });
}

function memberActions(context: ConsoleContext, { personId, name, role, isConfirmed }: Member): Html {
  const path = projectPath(context, `/members/${personId}`);
  const other: Role = role === 'owner' ? 'member' : 'owner';
  const link = isConfirmed ? '' : actionButton({ context, action: `${path}/sign-in-link`, label: 'Sign-in link', about: `for ${name}` });
  return html`<div class="actions">${link}${actionButton({ context, action: `${path}/role`, label: `Make ${other}`, values: { role: other }, about: name })}${actionButton(
    {
      context,
      action: `${path}/remove`,
      label: 'Remove',
      about: name,
      danger: true,
    },
  )}</div>`;
}

const roleOptions = [
  { value: 'member', label: 'Member' },
  { value: 'owner', label: 'Owner' },
];

function addForm(context: ConsoleContext, form: URLSearchParams, errors: FieldErrors): Html {
  const filled = fillFields(form, errors);
  return section(
    'Add a member',
    card(
      renderForm({
        context,
        action: projectPath(context, '/members'),
        submit: 'Add',
        fields: [
          textField({ ...filled('email'), label: 'E-mail address', type: 'email', required: true, autocomplete: 'off' }),
          textField({
            ...filled('name'),
            label: 'Name',
            maxLength: 200,
            autocomplete: 'off',
            hint: 'Shown to members until the person signs in with an account of their own.',
          }),
          selectField({ ...filled('role'), label: 'Role', required: true, options: roleOptions }),
        ],
      }),
    ),
    {
      hint: 'You get a one-time sign-in link. Until a deployment admin or the identity provider confirms the address, it only gives access to this project. People who already have an account find the project there.',
    },
  );
}

function parseRole(form: URLSearchParams): Role {
  const role = form.get('role');
  if (role === 'owner' || role === 'member') return role;
  throw gatewayError('bad_request', { issues: [{ path: 'role', message: 'must be owner or member' }] });
}

function withArticle(role: Role): string {
  return role === 'owner' ? 'an owner' : 'a member';
}
