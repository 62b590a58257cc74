/**
 * Decides which URLs from vendors and callers we may request, and which of them receive the provider's key.
 *
 * We check the URL after parsing it, because the parsed URL is the one we request. Its origin has to be that of the
 * provider's base URL or of one of its asset hosts. We reject URLs that the parser would repair (spaces, invisible
 * characters, backslashes, missing slashes, user info), because other parsers may read them differently. We don't
 * resolve any host names.
 */

/** The origins of a provider's files and operations. */
export interface VendorHosts {
  /** The origin of the base URL. We don't send the key to any other origin. */
  readonly origin: string;
  readonly assetOrigins: readonly string[];
}

/** A URL that we may request. */
export interface VendorAddress {
  readonly url: URL;
  /** Whether the URL has the same origin as the provider's base URL, so that we may send it the key. */
  readonly isProviderOrigin: boolean;
}

/**
 * `assetHosts` are hosts with an optional port. We use https for them, and also http if the provider's base URL does.
 */
export function buildVendorHosts(baseUrl: string, assetHosts: readonly string[]): VendorHosts {
  const base = new URL(baseUrl);
  const schemes = new Set(['https:', base.protocol]);
  return {
    origin: base.origin,
    assetOrigins: assetHosts.flatMap((host) => [...schemes].map((scheme) => new URL(`${scheme}//${host}`).origin)),
  };
}

/** Vendors use shorter URLs. The longest that we know are Google's signed URLs, which have about 2,000 characters. */
const maxAddressLength = 8_192;

const ambiguousCharacters = /[\p{C}\s\\]/u;

/** Reports whether a text is an absolute URL, on any host, that doesn't need to be repaired. */
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

/** Resolves a redirect by the same rules. A relative location stays on its host. */
export function resolveRedirect(location: string, from: URL, hosts: VendorHosts): VendorAddress | null {
  if (/^[a-z][a-z0-9+.-]*:/i.test(location)) return parseVendorAddress(location, hosts);
  if (ambiguousCharacters.test(location) || !URL.canParse(location, from.href)) return null;
  return parseVendorAddress(new URL(location, from).href, hosts);
}
