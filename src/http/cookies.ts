/**
 * Parses and formats the cookies of sign-in pages. If we use HTTPS, their names have a prefix (see `hostCookieName`).
 */

export interface Cookie {
  readonly name: string;
  readonly value: string;
  /**
   * How long the browser keeps the cookie. 0 deletes it. If this is missing, the browser keeps the cookie until it's
   * closed.
   */
  readonly maxAgeSeconds?: number;
}

/** The cookie with the session's secret. */
export function sessionCookieName(secure: boolean): string {
  return hostCookieName('gateway_session', secure);
}

/** The cookie from which we derive form tokens if there's no session. */
export function formCookieName(secure: boolean): string {
  return hostCookieName('gateway_form', secure);
}

/**
 * Adds the prefix `__Host-` if we use HTTPS. Browsers then only accept the cookie from this very host, so other hosts
 * of the same domain can't set it.
 */
export function hostCookieName(name: string, secure: boolean): string {
  return secure ? `__Host-${name}` : name;
}

/**
 * All cookies are HttpOnly and valid for the whole host. Over HTTPS they are also Secure. The console's cookies are
 * SameSite=Lax.
 */
export function formatCookie({ name, value, maxAgeSeconds }: Cookie, secure: boolean, sameSite: 'Lax' | 'None' = 'Lax'): string {
  const age = maxAgeSeconds === undefined ? '' : `; Max-Age=${maxAgeSeconds}`;
  return `${name}=${encodeURIComponent(value)}; Path=/; HttpOnly; SameSite=${sameSite}${age}${secure ? '; Secure' : ''}`;
}

/** Matches the names of all cookies that we set. */
const ownName = /^(?:__Host-)?gateway[_-]/;

/**
 * Returns the first value of each of our own cookies, and skips values that aren't percent-encoded UTF-8. A header can
 * have thousands of other cookies, and decoding invalid ones takes long, because each throws an exception.
 */
export function parseCookies(header: string | undefined): Readonly<Record<string, string>> {
  const cookies: Record<string, string> = Object.create(null);
  for (const part of header?.split(';') ?? []) {
    const equals = part.indexOf('=');
    const name = part.slice(0, equals).trim();
    if (equals < 1 || name in cookies || !ownName.test(name)) continue;
    try {
      cookies[name] = decodeURIComponent(part.slice(equals + 1).trim());
    } catch {
      // We never set such values.
    }
  }
  return cookies;
}
