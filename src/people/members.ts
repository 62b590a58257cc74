/**
 * The `members` table, which contains the roles of people in projects. Deployment admins own every project without
 * having a row.
 *
 * If an owner adds an address, we mustn't reveal whether it already has an account. So we always create a new account
 * that is only valid in this project (`confirm.ts`). If there's a confirmed account with that address, it gets the role
 * as well.
 */
import { randomUUID } from 'node:crypto';
import { type GatewayError, gatewayError } from '../core/errors.ts';
import { parseOrBadRequest } from '../core/parse-or-bad-request.ts';
import { type Clock, hourMs } from '../core/time.ts';
import type { Database, Queries } from '../db/database.ts';
import { shownEmailSql } from './confirm.ts';
import type { Person, Role } from './person.ts';
import { invitation, nameFromEmail, removedMember } from './person-input.ts';

export interface Member {
  readonly personId: string;
  readonly email: string;
  readonly name: string;
  readonly role: Role;
  readonly isDisabled: boolean;
  /** False if nobody has confirmed the person's e-mail address yet. Such an account is only valid in this project. */
  readonly isConfirmed: boolean;
  readonly createdAt: number;
}

export interface ProjectMembership {
  readonly projectId: string;
  readonly slug: string;
  readonly name: string;
  readonly role: Role;
}

const undoMs = hourMs;

export type Members = ReturnType<typeof createMembers>;

export function createMembers({ database, clock }: { readonly database: Database; readonly clock: Clock }) {
  return {
    /** Returns `owner` for deployment admins. Returns null for disabled people and for people who aren't members. */
    async roleOf(personId: string, projectId: string): Promise<Role | null> {
      const [row] = await database.query<{ role: Role | null }>(
        `select case when people.is_admin then 'owner' else coalesce(own.role, given.role) end as role
           from people
           left join members own on own.person_id = people.id and own.project_id = $2::uuid
           left join people unconfirmed on unconfirmed.project_id = $2::uuid and unconfirmed.claimed_email = people.email
                                        and people.project_id is null
           left join members given on given.person_id = unconfirmed.id and given.project_id = $2::uuid
          where people.id = $1::uuid and people.disabled_at is null and (people.project_id is null or people.project_id = $2::uuid)`,
        [personId, projectId],
      );
      return row?.role ?? null;
    },
    /** Returns the person's projects, sorted by slug. Deployment admins get all projects. */
    projectsOf({ id, isAdmin }: Person): Promise<ProjectMembership[]> {
      return isAdmin
        ? database.query<ProjectMembership>(`select id as "projectId", slug, name, 'owner' as role from projects order by slug`)
        : database.query<ProjectMembership>(
            `select projects.id as "projectId", slug, projects.name, role
               from (select members.project_id, role
                       from members join people on people.id = person_id
                      where person_id = $1::uuid and (people.project_id is null or people.project_id = members.project_id)
                     union all
                     select given.project_id, given.role
                       from people
                       join people unconfirmed on unconfirmed.claimed_email = people.email
                       join members given on given.person_id = unconfirmed.id
                      where people.id = $1::uuid and people.project_id is null
                        and not exists (select 1 from members own where own.person_id = people.id and own.project_id = given.project_id)
                    ) roles
               join projects on projects.id = roles.project_id order by slug`,
            [id],
          );
    },
    list: (projectId: string): Promise<Member[]> =>
      readMembers(database, `where members.project_id = $1::uuid order by ${shownEmailSql}`, [projectId]),
    /**
     * Adds somebody by e-mail address when an owner asks for it. Throws `bad_request`, or `conflict` if the address is
     * already a member.
     */
    invite(projectId: string, input: { email: string; name?: string | undefined }, role: Role): Promise<Member> {
      const { email, name = nameFromEmail(email) } = parseOrBadRequest(invitation, input);
      return database.transaction((tx) => addInvited(tx, projectId, { email, name, role, since: clock.now() }));
    },
    /**
     * Adds a person or changes their role. `previous` is null for new members. Throws `conflict` if the project would
     * lose its last owner.
     */
    put: (projectId: string, personId: string, role: Role): Promise<{ member: Member; previous: Role | null }> =>
      database.transaction(async (tx) => {
        if (role !== 'owner') await keepOwner(tx, projectId, personId);
        const previous = await lockMember(tx, projectId, personId);
        const [person] = await tx.query(
          'select 1 from people where id = $1::uuid and (project_id is null or project_id = $2::uuid) for share',
          [personId, projectId],
        );
        if (!person) throw memberNotFound();
        return { member: await addMember(tx, projectId, { personId, role, since: clock.now() }), previous };
      }),
    /**
     * Changes the role of a member. Throws `not_found` if the person isn't a member, and `conflict` if the project
     * would lose its last owner.
     */
    changeRole: (projectId: string, personId: string, role: Role): Promise<{ member: Member; previous: Role }> =>
      database.transaction(async (tx) => {
        if (role !== 'owner') await keepOwner(tx, projectId, personId);
        const previous = await lockMember(tx, projectId, personId);
        if (previous === null) throw memberNotFound();
        return { member: await addMember(tx, projectId, { personId, role, since: clock.now() }), previous };
      }),
    /**
     * Removes and returns a member. If the account is unconfirmed, it's deleted too. Throws `not_found`, or `conflict`
     * if the project would lose its last owner.
     */
    remove: (projectId: string, personId: string): Promise<Member> =>
      database.transaction(async (tx) => {
        const member = await readMember(tx, projectId, personId);
        if (!member) throw memberNotFound();
        await keepOwner(tx, projectId, personId);
        await tx.query('delete from members where project_id = $1::uuid and person_id = $2::uuid', [projectId, personId]);
        await tx.query('delete from people where id = $2::uuid and project_id = $1::uuid', [projectId, personId]);
        return member;
      }),
    /**
     * Adds a member again who was just removed. `input` has the format of `removedMember`. If we deleted their
     * unconfirmed account, they get a new one, which needs a new sign-in link.
     *
     * Throws `bad_request` if the project hasn't removed this person within the last hour, `conflict` if the address is
     * a member again, and `not_found` if a confirmed account was deleted in the meantime.
     */
    restore(projectId: string, input: unknown): Promise<Member> {
      const { personId, isConfirmed, role, createdAt, ...shown } = parseOrBadRequest(removedMember, input);
      const since = Math.min(createdAt, clock.now());
      return database.transaction(async (tx) => {
        if (!isConfirmed) {
          const { email, name = nameFromEmail(email) } = parseOrBadRequest(invitation, { email: shown.email, name: shown.name });
          return addInvited(tx, projectId, { email, name, role, since });
        }
        if (!(await wasRemoved(tx, projectId, personId, clock.now() - undoMs)))
          throw gatewayError('bad_request', { message: 'the removal can no longer be undone; add the member again below' });
        const [person] = await tx.query<{ email: string }>(
          'select email from people where id = $1::uuid and project_id is null for share',
          [personId],
        );
        if (!person) throw gatewayError('not_found', { message: 'the account was deleted in the meantime' });
        if (await isMember(tx, projectId, person.email)) throw gatewayError('conflict', { message: `${shown.name} is already a member` });
        return addMember(tx, projectId, { personId, role, since });
      });
    },
  };
}

/**
 * Checks in the audit log whether the project has recently removed this person. Without this check, an owner could send
 * an undo request with any person's id, and would learn who it belongs to.
 */
async function wasRemoved(tx: Queries, projectId: string, personId: string, since: number): Promise<boolean> {
  const removals = await tx.query(
    `select 1 from audit_log
      where project_id = $1::uuid and at >= $3::timestamptz and action = 'member.remove' and outcome = 'ok' and detail ->> 'person_id' = $2::text
      limit 1`,
    [projectId, personId, new Date(since)],
  );
  return removals.length > 0;
}

/** Locks the project, so that the address can't be added twice at the same time. */
async function isMember(tx: Queries, projectId: string, email: string): Promise<boolean> {
  await tx.query('select 1 from projects where id = $1::uuid for update', [projectId]);
  const members = await readMembers(tx, `where members.project_id = $1::uuid and ${shownEmailSql} = $2::text`, [projectId, email]);
  return members.length > 0;
}

/** Adds a member with an unconfirmed account, which is created unless the project already has one for this address. */
async function addInvited(
  tx: Queries,
  projectId: string,
  { email, name, role, since }: { readonly email: string; readonly name: string; readonly role: Role; readonly since: number },
): Promise<Member> {
  if (await isMember(tx, projectId, email))
    throw gatewayError('conflict', {
      issues: [{ path: 'email', message: 'is already a member; change the role in the list instead' }],
    });
  const [person] = await tx.query<{ id: string }>(
    `insert into people (id, email, name, is_admin, created_at, project_id, claimed_email)
     values ($1::uuid, $1::text || ':' || $2::text, $3::text, false, $4::timestamptz, $5::uuid, $2::text)
     on conflict (project_id, claimed_email) where project_id is not null do update set name = excluded.name
     returning id`,
    [randomUUID(), email, name, new Date(since), projectId],
  );
  return addMember(tx, projectId, { personId: person?.id ?? '', role, since });
}

async function addMember(
  tx: Queries,
  projectId: string,
  { personId, role, since }: { readonly personId: string; readonly role: Role; readonly since: number },
): Promise<Member> {
  await tx.query(
    `insert into members (project_id, person_id, role, created_at) values ($1::uuid, $2::uuid, $3::text, $4::timestamptz)
     on conflict (project_id, person_id) do update set role = excluded.role`,
    [projectId, personId, role, new Date(since)],
  );
  const member = await readMember(tx, projectId, personId);
  if (!member) throw memberNotFound();
  return member;
}

/**
 * Throws `conflict` if nobody but this person is an owner of the project who can still sign in. This locks the rows of
 * the owners, so that concurrent changes have to wait for each other.
 */
async function keepOwner(tx: Queries, projectId: string, personId: string): Promise<void> {
  const owners = await tx.query<{ personId: string; isDisabled: boolean }>(
    `select person_id as "personId", disabled_at is not null as "isDisabled"
     from members join people on people.id = person_id
     where members.project_id = $1::uuid and role = 'owner' order by person_id for update of members`,
    [projectId],
  );
  const active = owners.filter(({ isDisabled }) => !isDisabled);
  if (active.length === 1 && active[0]?.personId === personId)
    throw gatewayError('conflict', { message: 'the project needs an owner: make another member an owner first' });
}

/**
 * Returns the role, or null if the person isn't a member. Lock members before people, because that's the order in which
 * an unconfirmed account is removed.
 */
async function lockMember(tx: Queries, projectId: string, personId: string): Promise<Role | null> {
  const [member] = await tx.query<{ role: Role }>(
    'select role from members where project_id = $1::uuid and person_id = $2::uuid for update',
    [projectId, personId],
  );
  return member?.role ?? null;
}

interface MemberRow extends Omit<Member, 'createdAt'> {
  readonly createdAt: Date;
}

async function readMember(queries: Queries, projectId: string, personId: string): Promise<Member | null> {
  const [member = null] = await readMembers(queries, 'where members.project_id = $1::uuid and person_id = $2::uuid', [projectId, personId]);
  return member;
}

async function readMembers(queries: Queries, clauses: string, values: readonly unknown[]): Promise<Member[]> {
  const rows = await queries.query<MemberRow>(
    `select person_id as "personId", ${shownEmailSql} as email, name, role, disabled_at is not null as "isDisabled",
            people.project_id is null as "isConfirmed", members.created_at as "createdAt"
       from members join people on people.id = person_id ${clauses}`,
    values,
  );
  return rows.map((row) => ({ ...row, createdAt: row.createdAt.getTime() }));
}

function memberNotFound(): GatewayError {
  return gatewayError('not_found', { message: 'no such member' });
}
