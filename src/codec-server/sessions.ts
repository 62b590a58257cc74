/**
 * Sessions of the sign-in page: random ids in memory, so they end with the process.
 *
 * Over https the cookie is sent from the Temporal UI of another site (`SameSite=None; Secure`). On localhost it is `Lax`: another port is the
 * same site.
 */
import { createHash, randomBytes } from 'node:crypto';
import type { Clock } from '../core/time.ts';

export interface Sessions {
  /** Starts a session; returns the `set-cookie` header. */
  start(): string;
  /** When the session of this `cookie` header ends, in milliseconds since 1970. Null without a valid session. */
  endOf(cookieHeader: string | undefined): number | null;
  /** Ends the session; returns the `set-cookie` header that deletes the cookie. */
  end(cookieHeader: string | undefined): string;
}

const sessionMs = 8 * 3_600_000;
const maxSessions = 1_000;

export function createSessions(isSecure: boolean, clock: Clock): Sessions {
  // The prefix makes browsers accept the cookie from this host only, and over https only.
  const name = isSecure ? '__Host-gateway-codec' : 'gateway-codec';
  const attributes = `Path=/; HttpOnly; ${isSecure ? 'SameSite=None; Secure' : 'SameSite=Lax'}`;
  /** End of each session by the hash of its id, oldest first. A hash, so that the time of the lookup reveals nothing. */
  const ends = new Map<string, number>();
  const keyOf = (cookieHeader: string | undefined): string => hash(readCookie(cookieHeader ?? '', name));

  return {
    start() {
      for (const [key, end] of ends) if (ends.size >= maxSessions || end <= clock.now()) ends.delete(key);
      const id = randomBytes(32).toString('base64url');
      ends.set(hash(id), clock.now() + sessionMs);
      return `${name}=${id}; Max-Age=${sessionMs / 1_000}; ${attributes}`;
    },
    endOf(cookieHeader) {
      const end = ends.get(keyOf(cookieHeader));
      return end !== undefined && end > clock.now() ? end : null;
    },
    end(cookieHeader) {
      ends.delete(keyOf(cookieHeader));
      return `${name}=; Max-Age=0; ${attributes}`;
    },
  };
}

function readCookie(header: string, name: string): string {
  const pair = header.split(';').find((part) => part.trim().startsWith(`${name}=`));
  return pair?.trim().slice(name.length + 1) ?? '';
}

function hash(id: string): string {
  return createHash('sha256').update(id).digest('base64');
}
