/** People who sign in to the console or use MCP, and their roles. */

import type { Preferences } from './preferences.ts';

/** A person's role in a project. Deployment admins have the rights of an owner everywhere. */
export type Role = 'owner' | 'member';

export interface Person {
  readonly id: string;
  /** In lower case. No two people have the same one. */
  readonly email: string;
  readonly name: string;
  /** True for deployment admins, who own every project, and who manage people, projects and prices. */
  readonly isAdmin: boolean;
}

export interface Session {
  /** For lists and for revoking the session. It's public, unlike the secret in the cookie. */
  readonly id: string;
  readonly person: Person;
  readonly preferences: Preferences;
  readonly createdAt: number;
  readonly lastSeenAt: number;
  readonly expiresAt: number;
}
