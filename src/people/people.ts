import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';
import { type Accounts, createAccounts } from './accounts.ts';
import { type AttemptLimit, createAttemptLimit } from './attempt-limit.ts';
import { createMembers, type Members } from './members.ts';
import { createPersonalTokens, type PersonalTokens } from './personal-tokens.ts';
import { setPreferences } from './preferences.ts';
import { createSessions, type Sessions } from './sessions.ts';
import { createSignIn, type SignIn } from './sign-in.ts';
import { createSignInLinks, type SignInLinks } from './sign-in-links.ts';

export interface People {
  readonly accounts: Accounts;
  readonly personalTokens: PersonalTokens;
  readonly sessions: Sessions;
  readonly members: Members;
  readonly links: SignInLinks;
  readonly signIn: SignIn;
  readonly attempts: AttemptLimit;
  /** Changes a person's preferences for the console. Throws `bad_request`. */
  setPreferences(personId: string, input: Parameters<typeof setPreferences>[2]): Promise<void>;
}

export interface PeopleOptions {
  readonly database: Database;
  readonly clock: Clock;
}

export function createPeople(options: PeopleOptions): People {
  return {
    accounts: createAccounts(options),
    personalTokens: createPersonalTokens(options),
    sessions: createSessions(options),
    members: createMembers(options),
    links: createSignInLinks(options),
    signIn: createSignIn(options),
    attempts: createAttemptLimit(options),
    setPreferences: (personId, input) => setPreferences(options.database, personId, input),
  };
}
