/** Cookies of sign-in pages: parsing, writing, and the names that depend on HTTPS. */

export interface Cookie {
  readonly name: string;
  readonly value: string;
  /** Seconds; 0 deletes the cookie. Absent: until the browser closes. */
  readonly maxAgeSeconds?: number;
}

/** Name of the cookie with the secret of a session. */
export function sessionCookieName(secure: boolean): string {
  return hostCookieName('gateway_session', secure);
}

/** Name of the cookie from which the token of forms is derived as long as there is no session. */
export function formCookieName(secure: boolean): string {
  return hostCookieName('gateway_form', secure);
}

/**
 * Browsers accept a `__Host-` cookie only over HTTPS and only from the host itself, so no other host of the domain can plant one.
 */
export function hostCookieName(name: string, secure: boolean): string {
  return secure ? `__Host-${name}` : name;
}

/** Every cookie is HttpOnly, for the whole host, and Secure over HTTPS. Those of the console are SameSite=Lax. */
export function formatCookie({ name, value, maxAgeSeconds }: Cookie, secure: boolean, sameSite: 'Lax' | 'None' = 'Lax'): string {
  const age = maxAgeSeconds === undefined ? '' : `; Max-Age=${maxAgeSeconds}`;
  return `${name}=${encodeURIComponent(value)}; Path=/; HttpOnly; SameSite=${sameSite}${age}${secure ? '; Secure' : ''}`;
}

/** The first value of each name. Values that are not percent-encoded UTF-8 are left out. */
export function parseCookies(header: string | undefined): Readonly<Record<string, string>> {
  const cookies: Record<string, string> = Object.create(null);
  for (const part of header?.split(';') ?? []) {
    const equals = part.indexOf('=');
    const name = part.slice(0, equals).trim();
    if (equals < 1 || name in cookies) continue;
    try {
      cookies[name] = decodeURIComponent(part.slice(equals + 1).trim());
    } catch {
      // Not ours: every value that we set is percent-encoded.
    }
  }
  return cookies;
}
