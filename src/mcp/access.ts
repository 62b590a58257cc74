/** Identifies the person behind a request and the projects that they can access. */
import { gatewayError } from '../core/errors.ts';
import type { Person } from '../people/person.ts';
import type { Scope } from '../people/scopes.ts';

export interface Access {
  readonly person: Person;
  readonly scopes: readonly Scope[];
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
  /** The actor in the audit log. For an OIDC token, that's the person who has signed in. */
  readonly actor: 'personal_token' | 'person';
  /** The client in the audit log: `token:<prefix>` for a personal token, or the client id of an OIDC token. */
  readonly client: string;
}

export interface OwnProject {
  readonly projectId: string;
  readonly slug: string;
}

/** Returns the person's projects, or all projects for deployment admins. */
export type ProjectsOf = (person: Person) => Promise<readonly OwnProject[]>;

const maxNamedProjects = 20;

/**
 * Returns the project with this slug, or the person's only project if there's no slug. Throws `bad_request` without
 * revealing whether the slug belongs to somebody else's project.
 */
export async function chooseProject(projectsOf: ProjectsOf, person: Person, slug: string | undefined): Promise<OwnProject> {
  const projects = await projectsOf(person);
  const slugs = projects.map((project) => project.slug);
  const [only] = projects;
  if (slug === undefined && only && projects.length === 1) return only;
  const project = projects.find((candidate) => candidate.slug === slug);
  if (project) return project;
  if (!only) throw gatewayError('bad_request', { message: 'project: you are not a member of any project' });
  const named = `${slugs.slice(0, maxNamedProjects).join(', ')}${slugs.length > maxNamedProjects ? ', ...' : ''}`;
  const problem = slug === undefined ? 'is required; your projects are' : 'is not one of your projects, which are';
  throw gatewayError('bad_request', { message: `project: ${problem} ${named}` });
}
