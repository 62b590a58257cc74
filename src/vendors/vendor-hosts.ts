/**
 * Decides which URLs from vendors and callers we may request, and which of them get the provider's key.
 *
 * The origin has to be that of the provider's base URL, or of one of its asset hosts. We check the parsed URL, because
 * that's the one that we request. If a parser would have to repair a URL (spaces, invisible characters, backslashes,
 * missing slashes, user info), we reject it, because other parsers may read it differently. We don't resolve any host
 * names.
 */

/** The origins from which a provider's files and operations may be requested. */
export interface VendorHosts {
  /** The origin of the base URL. No other origin receives the provider's key. */
  readonly origin: string;
  readonly assetOrigins: readonly string[];
}

/** A URL that we've found to belong to the vendor, so we may request it. */
export interface VendorAddress {
  readonly url: URL;
  /** True if the URL has the same origin as the provider's base URL, which means that the key can be sent there. */
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
 * The longest URLs that we know of are Google's signed ones. They have about 2,000 characters, so this leaves plenty of
 * room.
 */
const maxAddressLength = 8_192;

const ambiguousCharacters = /[\p{C}\s\\]/u;

/** Checks for an absolute URL that a parser wouldn't have to repair. It can be on any host. */
export function isAddress(text: string): boolean {
  return text.length <= maxAddressLength && !ambiguousCharacters.test(text) && URL.canParse(text);
}

/** Parses an absolute URL. Returns null if we may not request it. */
export function parseVendorAddress(text: string, hosts: VendorHosts): VendorAddress | null {
  if (!isAddress(text)) return null;
  const authority = /^https?:\/\/([^/?#]+)/i.exec(text)?.[1];
  if (authority === undefined || authority.includes('@')) return null;
  const url = new URL(text);
  const isProviderOrigin = url.origin === hosts.origin;
  return isProviderOrigin || hosts.assetOrigins.includes(url.origin) ? { url, isProviderOrigin } : null;
}

/**
 * Resolves the location of a redirect, which may be relative. Returns null if `parseVendorAddress` wouldn't allow the
 * result.
 */
export function resolveRedirect(location: string, from: URL, hosts: VendorHosts): VendorAddress | null {
  if (/^[a-z][a-z0-9+.-]*:/i.test(location)) return parseVendorAddress(location, hosts);
  if (ambiguousCharacters.test(location) || !URL.canParse(location, from.href)) return null;
  return parseVendorAddress(new URL(location, from).href, hosts);
}
