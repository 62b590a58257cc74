/**
 * Decides which URLs from vendors and callers we request, and which of them receive the provider's key.
 *
 * We check the parsed URL, because that's the one we request. Its origin has to be the origin of the provider's base
 * URL or of one of its asset hosts. We reject URLs that the parser would repair (spaces, invisible characters,
 * backslashes, missing slashes, user info), because other parsers may read them differently. We don't resolve any host
 * names.
 */

/** The origins from which we can request a provider's files and operations. */
export interface VendorHosts {
  /** The origin of the base URL. We don't send the key to any other origin. */
  readonly origin: string;
  readonly assetOrigins: readonly string[];
}

/** A URL that we've checked to be the vendor's own, so that we can request it. */
export interface VendorAddress {
  readonly url: URL;
  /** True if the URL has the same origin as the provider's base URL, so that we can send the key to it. */
  readonly isProviderOrigin: boolean;
}

/**
 * `assetHosts` are host names with an optional port. We allow https for them, and also http if the base URL uses it.
 */
export function buildVendorHosts(baseUrl: string, assetHosts: readonly string[]): VendorHosts {
  const base = new URL(baseUrl);
  const schemes = new Set(['https:', base.protocol]);
  return {
    origin: base.origin,
    assetOrigins: assetHosts.flatMap((host) => [...schemes].map((scheme) => new URL(`${scheme}//${host}`).origin)),
  };
}

/**
 * The longest URLs that we know of are Google's signed URLs with about 2,000 characters. The limit is far above that.
 */
const maxAddressLength = 8_192;

const ambiguousCharacters = /[\p{C}\s\\]/u;

/** Returns true if a text is an absolute URL that a parser wouldn't have to repair. Any host is allowed. */
export function isAddress(text: string): boolean {
  return text.length <= maxAddressLength && !ambiguousCharacters.test(text) && URL.canParse(text);
}

/** Parses an absolute URL. Returns null if we aren't allowed to request it. */
export function parseVendorAddress(text: string, hosts: VendorHosts): VendorAddress | null {
  if (!isAddress(text)) return null;
  const authority = /^https?:\/\/([^/?#]+)/i.exec(text)?.[1];
  if (authority === undefined || authority.includes('@')) return null;
  const url = new URL(text);
  const isProviderOrigin = url.origin === hosts.origin;
  return isProviderOrigin || hosts.assetOrigins.includes(url.origin) ? { url, isProviderOrigin } : null;
}

/** Resolves a redirect. The same rules apply as for other URLs, and a relative location stays on its host. */
export function resolveRedirect(location: string, from: URL, hosts: VendorHosts): VendorAddress | null {
  if (/^[a-z][a-z0-9+.-]*:/i.test(location)) return parseVendorAddress(location, hosts);
  if (ambiguousCharacters.test(location) || !URL.canParse(location, from.href)) return null;
  return parseVendorAddress(new URL(location, from).href, hosts);
}
