/** Parses and formats the cookies of sign-in pages. Their names depend on HTTPS. */

export interface Cookie {
  readonly name: string;
  readonly value: string;
  /** If this is 0, the browser deletes the cookie. If it's missing, the browser keeps the cookie until it's closed. */
  readonly maxAgeSeconds?: number;
}

/** Returns the name of the cookie that contains the session's secret. */
export function sessionCookieName(secure: boolean): string {
  return hostCookieName('gateway_session', secure);
}

/** Returns the name of the cookie from which we derive the form token if there is no session. */
export function formCookieName(secure: boolean): string {
  return hostCookieName('gateway_form', secure);
}

/**
 * Over HTTPS, the names get the prefix `__Host-`. Browsers then only accept the cookies from the host itself, so no
 * other host of the same domain can set them.
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

/** Returns the first value of each name. Skips values that aren't percent-encoded UTF-8. */
export function parseCookies(header: string | undefined): Readonly<Record<string, string>> {
  const cookies: Record<string, string> = Object.create(null);
  for (const part of header?.split(';') ?? []) {
    const equals = part.indexOf('=');
    const name = part.slice(0, equals).trim();
    if (equals < 1 || name in cookies) continue;
    try {
      cookies[name] = decodeURIComponent(part.slice(equals + 1).trim());
    } catch {
      // Values that we set can always be decoded, so this cookie isn't ours.
    }
  }
  return cookies;
}
