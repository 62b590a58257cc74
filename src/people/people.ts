/** People who sign in: accounts, sessions, members of projects. */
import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';
import { createMembers, type Members } from './members.ts';
import { createSessions, type Sessions } from './sessions.ts';

export interface People {
  readonly sessions: Sessions;
  readonly members: Members;
}

export interface PeopleOptions {
  readonly database: Database;
  readonly clock: Clock;
}

export function createPeople(options: PeopleOptions): People {
  return { sessions: createSessions(options), members: createMembers(options) };
}
