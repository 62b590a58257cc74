import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';
import { createAccounts } from './accounts.ts';
import { createAttemptLimit } from './attempt-limit.ts';
import { createMembers } from './members.ts';
import { createPersonalTokens } from './personal-tokens.ts';
import { setPreferences } from './preferences.ts';
import { createSessions } from './sessions.ts';
import { createSignIn } from './sign-in.ts';
import { createSignInLinks } from './sign-in-links.ts';

export type People = ReturnType<typeof createPeople>;

export function createPeople(options: { readonly database: Database; readonly clock: Clock }) {
  return {
    accounts: createAccounts(options),
    personalTokens: createPersonalTokens(options),
    sessions: createSessions(options),
    members: createMembers(options),
    links: createSignInLinks(options),
    signIn: createSignIn(options),
    attempts: createAttemptLimit(options),
    /** Changes a person's preferences for the console. Throws `bad_request`. */
    setPreferences: (personId: string, input: Parameters<typeof setPreferences>[2]) => setPreferences(options.database, personId, input),
  };
}
