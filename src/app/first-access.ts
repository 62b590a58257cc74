/**
 * Gives the operator access to a service whose database is empty, with a first key and the sign-in of the first person.
 */
import type { FirstSignIn } from '../cli/banner.ts';
import type { Keyring } from '../keys/keyring.ts';
import type { People } from '../people/people.ts';
import { signInLinkUrl } from '../people/sign-in-links.ts';
import type { Projects } from '../projects/projects.ts';

export interface FirstAccess {
  /**
   * Creates the project `default` with a key and resolves to its secret. Resolves to null if there is already a
   * project.
   */
  issueFirstKey(): Promise<string | null>;
  /**
   * Returns how the first person can sign in, which is either a link or, if links must not be shown, the command that
   * prints one. Resolves to null if there is already a person.
   */
  prepareFirstSignIn(options: { origin: string; mayShowLink: boolean }): Promise<FirstSignIn | null>;
}

export function createFirstAccess({ projects, keyring, people }: { projects: Projects; keyring: Keyring; people: People }): FirstAccess {
  return {
    async issueFirstKey() {
      if ((await projects.list()).length > 0) return null;
      const { project } = await projects.ensureDefault('default');
      return (await keyring.issue(project.id, { name: 'first key' })).secret;
    },
    async prepareFirstSignIn({ origin, mayShowLink }) {
      if (!(await people.accounts.isEmpty())) return null;
      return mayShowLink ? { kind: 'link', url: signInLinkUrl(origin, (await people.links.issue(null)).secret) } : { kind: 'command' };
    },
  };
}
