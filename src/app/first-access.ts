/** Creates the first key of a new, empty service, and a way for its operator to sign in. */
import type { Keyring } from '../keys/keyring.ts';
import type { People } from '../people/people.ts';
import { signInLinkUrl } from '../people/sign-in-links.ts';
import type { Projects } from '../projects/projects.ts';

/** If our output may end up in a log, we don't print the sign-in link itself but the command that prints one. */
export type FirstSignIn = { readonly kind: 'link'; readonly url: string } | { readonly kind: 'command' };

export function createFirstAccess({ projects, keyring, people }: { projects: Projects; keyring: Keyring; people: People }) {
  return {
    /**
     * Creates the `default` project with a key and returns the key's secret. Returns null if there already is a
     * project.
     */
    async issueFirstKey(): Promise<string | null> {
      if ((await projects.list()).length > 0) return null;
      const { project } = await projects.put('default', {});
      return (await keyring.issue(project.id, { name: 'first key' })).secret;
    },
    /**
     * Returns a sign-in link for the first person, or the command that prints one if `mayShowLink` is false. Returns
     * null if somebody already has an account.
     */
    async prepareFirstSignIn({ origin, mayShowLink }: { origin: string; mayShowLink: boolean }): Promise<FirstSignIn | null> {
      if (!(await people.accounts.isEmpty())) return null;
      return mayShowLink ? { kind: 'link', url: signInLinkUrl(origin, (await people.links.issue(null)).secret) } : { kind: 'command' };
    },
  };
}
