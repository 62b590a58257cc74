/** People who sign in to the console or use MCP, and their roles. */

import type { Preferences } from './preferences.ts';

/** The role in a project. A deployment admin acts as an owner of every project. */
export type Role = 'owner' | 'member';

export interface Person {
  readonly id: string;
  /** Unique and in lower case. */
  readonly email: string;
  readonly name: string;
  /** Whether the person is a deployment admin, who owns every project and manages people, projects and prices. */
  readonly isAdmin: boolean;
}

export interface Session {
  /** The public id, for lists and revocation. The cookie contains a different secret. */
  readonly id: string;
  readonly person: Person;
  readonly preferences: Preferences;
  readonly createdAt: number;
  readonly lastSeenAt: number;
  readonly expiresAt: number;
}
