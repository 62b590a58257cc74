/** The person whose token a request carries, and the projects that the person may use. */
import { gatewayError } from '../core/errors.ts';
import type { Person } from '../people/person.ts';
import type { Scope } from '../people/scopes.ts';

/** A verified access token. */
export interface Access {
  readonly person: Person;
  readonly scopes: readonly Scope[];
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
  /** How the audit log names the authorization; an OIDC token is a sign-in of the person. */
  readonly actor: 'personal_token' | 'person';
  /** For the audit log: `token:<prefix>`, or the client id of an OIDC token. */
  readonly client: string;
}

export interface OwnProject {
  readonly projectId: string;
  readonly slug: string;
}

/** The projects of a person: all for a deployment admin. */
export type ProjectsOf = (person: Person) => Promise<readonly OwnProject[]>;

/** How many slugs an error names at most. */
const maxNamedProjects = 20;

/**
 * Finds the project of a slug, or the person's only project when there is no slug. Throws `bad_request` with a text that does not depend on
 * whether a project of others exists.
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
  const problem = slug === undefined ? 'required; yours are' : 'not one of yours, which are';
  throw gatewayError('bad_request', { message: `project: ${problem}: ${named}` });
}
