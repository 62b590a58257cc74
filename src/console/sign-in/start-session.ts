/** Starts a session for a person who has just signed in, and records it in the audit log. */

import { type Cookie, sessionCookieName } from '../../http/cookies.ts';
import type { Audit } from '../../people/audit.ts';
import type { Person } from '../../people/person.ts';
import { type Sessions, sessionMaxMs } from '../../people/sessions.ts';
import type { ConsoleContext } from '../frame/route.ts';

export type StartSession = ReturnType<typeof createSessionStarter>;

export function createSessionStarter(sessions: Sessions, audit: Pick<Audit, 'begin' | 'finish'>) {
  /**
   * Starts a session and returns its cookies. If the browser already has a session, that one ends. Throws the error of
   * `sessions.start`.
   */
  return async (
    { cookies, secure, userAgent }: ConsoleContext,
    person: Person,
    method: 'password' | 'link' | 'oidc',
    passwordHash: string | null,
  ): Promise<readonly Cookie[]> => {
    const entry = await audit.begin({ actor: 'person', personId: person.id, projectId: null, action: 'session.start' });
    const name = sessionCookieName(secure);
    const { secret } = await sessions.start(person.id, { userAgent: userAgent || null, replaces: cookies[name] ?? null, passwordHash });
    await audit.finish(entry, 'ok', { method });
    return [{ name, value: secret, maxAgeSeconds: sessionMaxMs / 1_000 }];
  };
}
