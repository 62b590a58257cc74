/**
 * Manages the sessions of the sign-in page. Sessions are random ids in memory, so they end with the process.
 *
 * Over https, a Temporal UI on another site has to send the cookie, so it's `SameSite=None; Secure`. On localhost it's
 * `Lax`, because a different port is still the same site.
 */
import { randomBytes } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { sha256 } from '../core/sha256.ts';
import type { Clock } from '../core/time.ts';
import { formatCookie, hostCookieName, parseCookies } from '../http/cookies.ts';

const sessionMs = 8 * 3_600_000;
const maxSessions = 1_000;

export function createSessions(isSecure: boolean, clock: Clock) {
  const name = hostCookieName('gateway-codec', isSecure);
  const format = (value: string, maxAgeSeconds: number): string =>
    formatCookie({ name, value, maxAgeSeconds }, isSecure, isSecure ? 'None' : 'Lax');
  /**
   * When each session expires, by the hash of its id. Looking up hashes rather than ids means that the timing of a
   * lookup can't leak a session id.
   */
  const ends = new LRUCache<string, number>({ max: maxSessions });
  const keyOf = (cookieHeader: string | undefined): string => hash(parseCookies(cookieHeader)[name] ?? '');

  return {
    /** Starts a session. Returns the `set-cookie` header for it. */
    start(): string {
      const id = randomBytes(32).toString('base64url');
      ends.set(hash(id), clock.now() + sessionMs);
      return format(id, sessionMs / 1_000);
    },
    /**
     * Returns when the session in this `cookie` header expires (in milliseconds since 1970), or null if it has no valid
     * session.
     */
    endOf(cookieHeader: string | undefined): number | null {
      const end = ends.get(keyOf(cookieHeader));
      return end !== undefined && end > clock.now() ? end : null;
    },
    /** Ends the session. Returns the `set-cookie` header that deletes the cookie. */
    end(cookieHeader: string | undefined): string {
      ends.delete(keyOf(cookieHeader));
      return format('', 0);
    },
  };
}

function hash(id: string): string {
  return sha256(id).toString('base64');
}
