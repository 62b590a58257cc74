/** People who sign in to the console and MCP, and what they may do. */

/** Role in a project. A deployment admin acts as owner of every project. */
export type Role = 'owner' | 'member';

export interface Person {
  readonly id: string;
  /** Lower case; unique. */
  readonly email: string;
  readonly name: string;
  /** Deployment admin: owner of every project; manages people, projects, prices. */
  readonly isAdmin: boolean;
}

/** Session of a signed-in person. */
export interface Session {
  /** Public id, for lists and revocation; never the secret of the cookie. */
  readonly id: string;
  readonly person: Person;
  readonly createdAt: number;
  readonly lastSeenAt: number;
  readonly expiresAt: number;
}
