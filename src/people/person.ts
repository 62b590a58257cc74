/** People who sign in to the console or use MCP, and their roles. */

import type { Preferences } from './preferences.ts';

/** A role in a project. Deployment admins have the rights of an owner in every project. */
export type Role = 'owner' | 'member';

export interface Person {
  readonly id: string;
  /** In lower case, and unique. */
  readonly email: string;
  readonly name: string;
  /** True for deployment admins, who own every project and manage people, projects and prices. */
  readonly isAdmin: boolean;
}

export interface Session {
  /** The public id of the session, used in lists and to revoke it. The secret is only in the cookie. */
  readonly id: string;
  readonly person: Person;
  readonly preferences: Preferences;
  readonly createdAt: number;
  readonly lastSeenAt: number;
  readonly expiresAt: number;
}
