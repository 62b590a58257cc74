/** Access to a service whose database is empty: the first key, and the sign-in of the first person. */
import type { FirstSignIn } from '../cli/banner.ts';
import type { Keyring } from '../keys/keyring.ts';
import type { People } from '../people/people.ts';
import { signInLinkUrl } from '../people/sign-in-links.ts';
import type { Projects } from '../projects/projects.ts';

export interface FirstAccess {
  /** Creates the project `default` and its first key; resolves to the secret. Null when a project exists already. */
  issueFirstKey(): Promise<string | null>;
  /** How the first person signs in: a link, or the command that prints one when links must not be shown. Null when a person exists. */
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
