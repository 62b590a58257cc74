import type { Request } from 'express';
import { z } from 'zod';
import { gatewayError } from '../../../core/errors.ts';
import { parseOrBadRequest } from '../../../core/parse-or-bad-request.ts';
import { formatTime, formatTimeOrNull } from '../../../core/time.ts';
import type { PersonRecord } from '../../../people/accounts.ts';
import type { Member } from '../../../people/members.ts';
import type { People } from '../../../people/people.ts';
import { memberInput, signInLinkInput } from '../../../people/person-input.ts';
import { type PersonalToken, personalTokenInput } from '../../../people/personal-tokens.ts';
import type { SessionRecord } from '../../../people/sessions.ts';
import { signInLinkUrl } from '../../../people/sign-in-links.ts';
import { flag, pageLimit } from '../../query-schemas.ts';
import { type Change, param, type Responders, toListJson } from './responders.ts';

export interface PeopleRouteDeps {
  readonly people: People;
  /** The public scheme and host for sign-in links. Null to use the host of the request. */
  readonly publicUrl: () => string | null;
}

export function addPeopleRoutes(responders: Responders, { people, publicUrl }: PeopleRouteDeps): void {
  const { read, change, readProject, changeProject } = responders;
  const { accounts, members, sessions, links, personalTokens } = people;

  /**
   * Finds a person by the e-mail address in the URL. The audit row gets their id, because an address would stay in the
   * audit log after the person is deleted.
   */
  const findPerson = async (request: Request, change?: Change): Promise<PersonRecord> => {
    const person = await accounts.findByEmail(param(request, 'email'));
    if (!person) throw gatewayError('not_found', { message: 'no such person' });
    change?.note({ person_id: person.id });
    return person;
  };

  const listByEmail = async (projectId: string, request: Request): Promise<Member[]> => {
    const email = param(request, 'email').trim().toLowerCase();
    return (await members.list(projectId)).filter((member) => member.email === email);
  };
  const findMember = async (projectId: string, request: Request): Promise<Member> => {
    const [member] = await listByEmail(projectId, request);
    if (!member) throw gatewayError('not_found', { message: 'no such member' });
    return member;
  };

  const issueLink = async (request: Request, personId: string | null) => {
    const { secret, expiresAt } = await links.issue(personId);
    const origin = publicUrl() ?? originOf(request);
    return { sign_in_url: signInLinkUrl(origin, secret), sign_in_url_expires_at: formatTime(expiresAt) };
  };

  read('/people', async ({ query }) => {
    const { unconfirmed, ...page } = parseOrBadRequest(peopleQuery, query);
    return toListJson(unconfirmed ? await accounts.listUnconfirmed() : await accounts.list(page), toPersonJson);
  });
  change('post', '/people', 'person.create', async (request, change) => {
    const person = await accounts.create(request.body);
    change.note({ person_id: person.id, admin: person.isAdmin });
    change.setStatus(201);
    return { ...toPersonJson(person), ...(!person.hasPassword && (await issueLink(request, person.id))) };
  });
  read('/people/:email', async (request) => toPersonJson(await findPerson(request)));
  change('patch', '/people/:email', 'person.change', async (request, change) => {
    const before = await findPerson(request, change);
    const after = await accounts.change(before.id, request.body);
    change.note({ ...(before.isAdmin !== after.isAdmin && { admin: { from: before.isAdmin, to: after.isAdmin } }) });
    const [wasDisabled, isDisabled] = [before.disabledAt !== null, after.disabledAt !== null];
    change.note({ ...(wasDisabled !== isDisabled && { disabled: { from: wasDisabled, to: isDisabled } }) });
    return toPersonJson(after);
  });
  change('delete', '/people/:email', 'person.delete', async (request, change) => {
    const person = await findPerson(request, change);
    await accounts.remove(person.id);
    return { ...toPersonJson(person), deleted: true };
  });
  read('/people/:email/sessions', async (request) => toListJson(await sessions.list((await findPerson(request)).id), toSessionJson));
  change('delete', '/people/:email/sessions', 'session.revoke_all', async (request, change) => {
    const revoked = await sessions.revokeAll((await findPerson(request, change)).id);
    change.note({ sessions: revoked });
    return { revoked };
  });
  change('delete', '/people/:email/sessions/:id', 'session.revoke', async (request, change) => {
    const { id } = await findPerson(request, change);
    if (!(await sessions.revoke(id, param(request, 'id')))) throw gatewayError('not_found', { message: 'no such session' });
    return { revoked: 1 };
  });
  read('/people/:email/tokens', async (request) => toListJson(await personalTokens.list((await findPerson(request)).id), toTokenJson));
  change('post', '/people/:email/tokens', 'token.create', async (request, change) => {
    const { expires_in_days: days, ...input } = parseOrBadRequest(personalTokenInput, request.body);
    const { token, record } = await personalTokens.create((await findPerson(request, change)).id, { ...input, days });
    change.note({ prefix: record.prefix, name: record.name, scopes: record.scopes });
    change.setStatus(201);
    return { token, ...toTokenJson(record) };
  });
  change('delete', '/people/:email/tokens/:id', 'token.revoke', async (request, change) => {
    const record = await personalTokens.revoke((await findPerson(request, change)).id, param(request, 'id'));
    change.note({ prefix: record.prefix, name: record.name });
    return toTokenJson(record);
  });
  change('post', '/sign-in-links', 'person.sign_in_link', async (request, change) => {
    const { email, admin = false } = parseOrBadRequest(signInLinkInput, request.body);
    if (email === undefined && !admin)
      throw gatewayError('bad_request', { issues: [{ path: 'email', message: 'is required unless admin is true' }] });
    const known = email === undefined ? null : await accounts.findByEmail(email);
    if (known && known.disabledAt !== null)
      throw gatewayError('conflict', { issues: [{ path: 'email', message: 'this account is disabled; enable it first' }] });
    const person = email === undefined ? null : (known ?? (await accounts.create({ email, admin })));
    if (person && admin && !person.isAdmin) await accounts.change(person.id, { admin });
    change.note({ person_id: person?.id ?? null, admin: admin || (person?.isAdmin ?? false) });
    change.setStatus(201);
    return { email: person?.email ?? null, ...(await issueLink(request, person?.id ?? null)) };
  });
  readProject('/teams/:project/members', async ({ id }) => toListJson(await members.list(id), toMemberJson));
  readProject('/teams/:project/members/:email', async ({ id }, request) => {
    return toMemberJson(await findMember(id, request));
  });
  changeProject('put', '/teams/:project/members/:email', 'member.change', async (project, request, change) => {
    const { role } = parseOrBadRequest(memberInput, request.body);
    // Whoever has the admin token vouches for the e-mail address. So if an owner's invitation has created an
    // unconfirmed account with this address, we can confirm it now.
    const unconfirmed = (await listByEmail(project.id, request)).find(({ isConfirmed }) => !isConfirmed);
    if (unconfirmed) await accounts.confirm(unconfirmed.personId);
    const { member, previous } = await members.put(project.id, (await findPerson(request, change)).id, role);
    change.note({ role: { from: previous, to: role } });
    return toMemberJson(member);
  });
  changeProject('delete', '/teams/:project/members/:email', 'member.remove', async (project, request, change) => {
    const { personId } = await findMember(project.id, request);
    change.note({ person_id: personId });
    const member = await members.remove(project.id, personId);
    change.note({ role: { from: member.role, to: null } });
    return toMemberJson(member);
  });
}

const peopleQuery = z.strictObject({
  limit: pageLimit.default(100),
  after: z.string().min(1).max(254).optional(),
  unconfirmed: flag,
});

function toPersonJson(person: PersonRecord): Record<string, unknown> {
  const { id, email, name, isAdmin, hasPassword, hasOidc, onlyProject, disabledAt, createdAt } = person;
  return {
    ...{ id, email, name, admin: isAdmin, has_password: hasPassword, has_oidc: hasOidc },
    only_project: onlyProject,
    disabled_at: formatTimeOrNull(disabledAt),
    created_at: formatTime(createdAt),
  };
}

function toMemberJson({ personId, email, name, role, isDisabled, isConfirmed, createdAt }: Member): Record<string, unknown> {
  return { id: personId, email, name, role, disabled: isDisabled, confirmed: isConfirmed, created_at: formatTime(createdAt) };
}

function toSessionJson({ id, userAgent, createdAt, lastSeenAt, expiresAt }: SessionRecord): Record<string, unknown> {
  return {
    ...{ id, user_agent: userAgent },
    created_at: formatTime(createdAt),
    last_seen_at: formatTime(lastSeenAt),
    expires_at: formatTime(expiresAt),
  };
}

function toTokenJson({ id, prefix, name, scopes, createdAt, expiresAt, lastUsedAt }: PersonalToken): Record<string, unknown> {
  return {
    ...{ id, prefix, name, scopes },
    created_at: formatTime(createdAt),
    expires_at: formatTime(expiresAt),
    last_used_at: formatTimeOrNull(lastUsedAt),
  };
}

function originOf(request: Request): string {
  const scheme = request.get('x-forwarded-proto')?.split(',', 1)[0]?.trim() === 'https' ? 'https' : 'http';
  return `${scheme}://${request.get('host') ?? ''}`;
}
