/** Who makes a request, and which projects they may use. */
import { gatewayError } from '../core/errors.ts';
import type { Person } from '../people/person.ts';
import type { Scope } from '../people/scopes.ts';

/** What a verified access token grants. */
export interface Access {
  readonly person: Person;
  readonly scopes: readonly Scope[];
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
  /** How the audit log refers to the authorization. An OIDC token counts as a sign-in of the person. */
  readonly actor: 'personal_token' | 'person';
  /** For the audit log. Either `token:<prefix>`, or the client id of an OIDC token. */
  readonly client: string;
}

export interface OwnProject {
  readonly projectId: string;
  readonly slug: string;
}

/** Returns the projects of a person, or all projects for a deployment admin. */
export type ProjectsOf = (person: Person) => Promise<readonly OwnProject[]>;

const maxNamedProjects = 20;

/**
 * Finds the project with this slug. Without a slug, it returns the person's project if there is only one. Throws
 * `bad_request`. The message doesn't reveal whether other people have a project with this slug.
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
