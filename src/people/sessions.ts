/**
 * The `sessions` table. The cookie contains a random secret, of which we only store the SHA-256. Every sign-in starts a
 * new session, so it's no use to plant a secret before somebody signs in (session fixation). Each request looks up its
 * session in the database, so a session that's revoked ends in every process immediately.
 */
import { type GatewayError, gatewayError } from '../core/errors.ts';
import { newId } from '../core/ids.ts';
import { sha256 } from '../core/sha256.ts';
import { type Clock, dayMs } from '../core/time.ts';
import type { Database, Queries } from '../db/database.ts';
import { shownEmailSql } from './confirm.ts';
import type { Person, Session } from './person.ts';
import { toPreferences } from './preferences.ts';
import { createSecret, isSecret } from './secret.ts';

/** A session ends when it hasn't been used for a week, and after 30 days in any case. */
export const sessionIdleMs = 7 * dayMs;
export const sessionMaxMs = 30 * dayMs;
const lastSeenIntervalMs = 60_000;
const maxUserAgentLength = 300;

export interface SessionRecord extends Omit<Session, 'person' | 'preferences'> {
  /** The `user-agent` header of the sign-in request. */
  readonly userAgent: string | null;
}

interface NewSession {
  readonly userAgent: string | null;
  readonly replaces?: string | null;
  readonly passwordHash?: string | null;
}

export type Sessions = ReturnType<typeof createSessions>;

export function createSessions({ database, clock }: { readonly database: Database; readonly clock: Clock }) {
  return {
    /**
     * Starts a session and returns its secret, of which we only store a hash. If `replaces` is the secret of another
     * session, that session ends. `passwordHash` is the hash that the person's password was verified with, if they
     * signed in with one.
     *
     * Throws `forbidden` if the account was disabled or deleted, or its password was changed, while the person was
     * signing in. Those changes end all sessions, so they mustn't miss this one.
     */
    async start(personId: string, { userAgent, replaces = null, passwordHash = null }: NewSession) {
      const now = clock.now();
      const { secret, hash } = createSecret();
      const expiresAt = now + sessionMaxMs;
      await database.transaction(async (tx) => {
        const started = await tx.query(
          `insert into sessions (id, secret_sha256, person_id, user_agent, created_at, last_seen_at, expires_at)
           select $1::uuid, $2::bytea, id, $4::text, $5::timestamptz, $5::timestamptz, $6::timestamptz
             from people where id = $3::uuid and disabled_at is null and ($7::text is null or password_hash = $7::text) for share
           returning 1`,
          [newId(now), hash, personId, userAgent?.slice(0, maxUserAgentLength) ?? null, new Date(now), new Date(expiresAt), passwordHash],
        );
        if (started.length === 0) throw accessEnded();
        // A change of the password locks the person before their sessions as well.
        if (replaces !== null) await tx.query('delete from sessions where secret_sha256 = $1::bytea', [sha256(replaces)]);
      });
      return { secret, expiresAt };
    },
    /** Returns null if the secret is unknown, the session was revoked or has expired, or the person is disabled. */
    async find(secret: string): Promise<Session | null> {
      if (!isSecret(secret)) return null;
      const now = clock.now();
      const [row] = await database.query<SessionRow>(
        `with found as (
           select sessions.id, sessions.created_at as "createdAt", last_seen_at as "lastSeenAt", expires_at as "expiresAt",
                  people.id as "personId", ${shownEmailSql} as email, name, is_admin as "isAdmin", theme,
                  people.time_zone as "timeZone"
           from sessions join people on people.id = person_id
           where secret_sha256 = $1::bytea and disabled_at is null and ${unexpired}
         ), seen as (
           update sessions set last_seen_at = $2::timestamptz
           from found where sessions.id = found.id and found."lastSeenAt" <= $4::timestamptz
         )
         select * from found`,
        [sha256(secret), new Date(now), new Date(now - sessionIdleMs), new Date(now - lastSeenIntervalMs)],
      );
      if (!row) return null;
      const { personId, email, name, isAdmin, theme, timeZone, ...times } = row;
      return { ...toTimes(times), person: { id: personId, email, name, isAdmin }, preferences: toPreferences({ theme, timeZone }) };
    },
    /** Lists the person's unexpired sessions, the most recently used one first. */
    async list(personId: string): Promise<SessionRecord[]> {
      const now = clock.now();
      const rows = await database.query<SessionTimes & { userAgent: string | null }>(
        `select id, created_at as "createdAt", last_seen_at as "lastSeenAt", expires_at as "expiresAt", user_agent as "userAgent"
         from sessions where person_id = $1::uuid and ${unexpired} order by last_seen_at desc, id desc`,
        [personId, new Date(now), new Date(now - sessionIdleMs)],
      );
      return rows.map((row) => ({ ...toTimes(row), userAgent: row.userAgent }));
    },
    async end(secret: string): Promise<void> {
      await database.query('delete from sessions where secret_sha256 = $1::bytea', [sha256(secret)]);
    },
    /** Returns false if the person has no such session. */
    async revoke(personId: string, sessionId: string): Promise<boolean> {
      const rows = await database.query('delete from sessions where person_id = $1::uuid and id::text = $2::text returning id', [
        personId,
        sessionId,
      ]);
      return rows.length > 0;
    },
    /** Returns how many sessions were ended. */
    revokeAll: (personId: string, { except }: { except?: string } = {}): Promise<number> => endSessions(database, personId, except),
  };
}

/** The error for somebody whose access ended while their request was running. */
export function accessEnded(): GatewayError {
  return gatewayError('forbidden', { status: 401, message: 'your account has changed in the meantime; sign in again' });
}

/** Ends all of a person's sessions except one. Returns how many were ended. */
export async function endSessions(queries: Queries, personId: string, except: string | null = null): Promise<number> {
  const rows = await queries.query(
    'delete from sessions where person_id = $1::uuid and ($2::uuid is null or id <> $2::uuid) returning id',
    [personId, except],
  );
  return rows.length;
}

/**
 * SQL condition for sessions that are still valid. $2 is the current time. Sessions that haven't been used since $3 are
 * invalid, because they've been idle for too long.
 */
const unexpired = 'expires_at > $2::timestamptz and last_seen_at > $3::timestamptz';

interface SessionTimes {
  readonly id: string;
  readonly createdAt: Date;
  readonly lastSeenAt: Date;
  readonly expiresAt: Date;
}

interface SessionRow extends SessionTimes, Omit<Person, 'id'> {
  readonly personId: string;
  readonly theme: string | null;
  readonly timeZone: string | null;
}

function toTimes({ id, createdAt, lastSeenAt, expiresAt }: SessionTimes): Omit<Session, 'person' | 'preferences'> {
  return {
    id,
    createdAt: createdAt.getTime(),
    lastSeenAt: lastSeenAt.getTime(),
    // A session that isn't used ends earlier than its maximum age.
    expiresAt: Math.min(expiresAt.getTime(), lastSeenAt.getTime() + sessionIdleMs),
  };
}
