/** Table `members`: roles of people in projects. Deployment admins are owners of every project without a row. */
import { type GatewayError, gatewayError } from '../core/errors.ts';
import type { Clock } from '../core/time.ts';
import type { Database, Queries } from '../db/database.ts';
import type { Person, Role } from './person.ts';

export interface Member {
  readonly personId: string;
  readonly email: string;
  readonly name: string;
  readonly role: Role;
  readonly isDisabled: boolean;
  readonly createdAt: number;
}

/** A project that a person may open. */
export interface ProjectMembership {
  readonly projectId: string;
  readonly slug: string;
  readonly name: string;
  readonly role: Role;
}

export interface Members {
  /** `owner` for deployment admins; null for a stranger to the project and for a disabled person. */
  roleOf(personId: string, projectId: string): Promise<Role | null>;
  /** By slug; every project for deployment admins. */
  projectsOf(person: Person): Promise<ProjectMembership[]>;
  /** Members of a project, by email. */
  list(projectId: string): Promise<Member[]>;
  /** Adds a person or changes their role. Throws `conflict` when the project would lose its last owner. `previous`: null for a new member. */
  put(projectId: string, personId: string, role: Role): Promise<{ member: Member; previous: Role | null }>;
  /** Throws `not_found`, and `conflict` when the project would lose its last owner. Returns the member that was removed. */
  remove(projectId: string, personId: string): Promise<Member>;
}

export function createMembers({ database, clock }: { readonly database: Database; readonly clock: Clock }): Members {
  return {
    async roleOf(personId, projectId) {
      const [row] = await database.query<{ role: Role | null }>(
        `select case when is_admin then 'owner' else role end as role
         from people left join members on person_id = people.id and project_id = $2::uuid
         where people.id = $1::uuid and disabled_at is null`,
        [personId, projectId],
      );
      return row?.role ?? null;
    },
    projectsOf({ id, isAdmin }) {
      return isAdmin
        ? database.query<ProjectMembership>(`select id as "projectId", slug, name, 'owner' as role from projects order by slug`)
        : database.query<ProjectMembership>(
            `select projects.id as "projectId", slug, name, role
             from members join projects on projects.id = project_id where person_id = $1::uuid order by slug`,
            [id],
          );
    },
    async list(projectId) {
      const rows = await database.query<MemberRow>(`${selectMembers} where project_id = $1::uuid order by email`, [projectId]);
      return rows.map(toMember);
    },
    put: (projectId, personId, role) =>
      database.transaction(async (tx) => {
        const previous = await readMember(tx, projectId, personId);
        if (previous && role !== 'owner') await keepOwner(tx, projectId, personId);
        await tx.query(
          `insert into members (project_id, person_id, role, created_at) values ($1::uuid, $2::uuid, $3::text, $4::timestamptz)
           on conflict (project_id, person_id) do update set role = excluded.role`,
          [projectId, personId, role, new Date(clock.now())],
        );
        const member = await readMember(tx, projectId, personId);
        if (!member) throw memberNotFound();
        return { member, previous: previous?.role ?? null };
      }),
    remove: (projectId, personId) =>
      database.transaction(async (tx) => {
        const member = await readMember(tx, projectId, personId);
        if (!member) throw memberNotFound();
        await keepOwner(tx, projectId, personId);
        await tx.query('delete from members where project_id = $1::uuid and person_id = $2::uuid', [projectId, personId]);
        return member;
      }),
  };
}

/** Throws `conflict` when the person is the only owner of the project who can sign in. Serializes such changes of the project. */
async function keepOwner(tx: Queries, projectId: string, personId: string): Promise<void> {
  const owners = await tx.query<{ personId: string; isDisabled: boolean }>(
    `select person_id as "personId", disabled_at is not null as "isDisabled"
     from members join people on people.id = person_id
     where project_id = $1::uuid and role = 'owner' order by person_id for update of members`,
    [projectId],
  );
  const active = owners.filter(({ isDisabled }) => !isDisabled);
  if (active.length === 1 && active[0]?.personId === personId)
    throw gatewayError('conflict', { message: 'the project needs an owner: make another member an owner first' });
}

const selectMembers = `select person_id as "personId", email, name, role, disabled_at is not null as "isDisabled", members.created_at as "createdAt"
  from members join people on people.id = person_id`;

interface MemberRow extends Omit<Member, 'createdAt'> {
  readonly createdAt: Date;
}

async function readMember(queries: Queries, projectId: string, personId: string): Promise<Member | null> {
  const [row] = await queries.query<MemberRow>(`${selectMembers} where project_id = $1::uuid and person_id = $2::uuid`, [
    projectId,
    personId,
  ]);
  return row ? toMember(row) : null;
}

function toMember(row: MemberRow): Member {
  return { ...row, createdAt: row.createdAt.getTime() };
}

function memberNotFound(): GatewayError {
  return gatewayError('not_found', { message: 'no such member' });
}
