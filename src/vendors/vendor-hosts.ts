/**
 * Decides which URLs from vendors and callers may be requested, and which of them get the provider's key.
 *
 * A URL is checked after parsing, because the parsed URL is what is requested: its origin must be that of the provider's base URL or of one
 * of its asset hosts. URLs that the parser would repair (spaces, invisible characters, backslashes, missing slashes, user info) are rejected,
 * because other parsers may read them differently. Pure: resolves no host names.
 */

/** Origins of a provider's files and operations. */
export interface VendorHosts {
  /** Origin of the base URL: the only one that gets the key. */
  readonly origin: string;
  readonly assetOrigins: readonly string[];
}

/** A URL that may be requested. */
export interface VendorAddress {
  readonly url: URL;
  /** The URL has the origin of the provider's base URL, so it may get the key. */
  readonly isProviderOrigin: boolean;
}

/** `assetHosts` are hosts with an optional port. They use https, and http only if the provider's base URL does. */
export function buildVendorHosts(baseUrl: string, assetHosts: readonly string[]): VendorHosts {
  const base = new URL(baseUrl);
  const schemes = new Set(['https:', base.protocol]);
  return {
    origin: base.origin,
    assetOrigins: assetHosts.flatMap((host) => [...schemes].map((scheme) => new URL(`${scheme}//${host}`).origin)),
  };
}

/** Vendors use shorter ones; the longest known are Google's signed URLs of about 2,000 characters. */
const maxAddressLength = 8_192;

const ambiguousCharacters = /[\p{C}\s\\]/u;

/** Reports whether a text is an absolute URL that needs no repair, on any host. */
export function isAddress(text: string): boolean {
  return text.length <= maxAddressLength && !ambiguousCharacters.test(text) && URL.canParse(text);
}

/** Parses an absolute URL; null when it may not be requested. */
export function parseVendorAddress(text: string, hosts: VendorHosts): VendorAddress | null {
  if (!isAddress(text)) return null;
  const authority = /^https?:\/\/([^/?#]+)/i.exec(text)?.[1];
  if (authority === undefined || authority.includes('@')) return null;
  const url = new URL(text);
  const isProviderOrigin = url.origin === hosts.origin;
  return isProviderOrigin || hosts.assetOrigins.includes(url.origin) ? { url, isProviderOrigin } : null;
}

/** Resolves a redirect by the same rule; a relative location stays on its host. */
export function resolveRedirect(location: string, from: URL, hosts: VendorHosts): VendorAddress | null {
  if (/^[a-z][a-z0-9+.-]*:/i.test(location)) return parseVendorAddress(location, hosts);
  if (ambiguousCharacters.test(location) || !URL.canParse(location, from.href)) return null;
  return parseVendorAddress(new URL(location, from).href, hosts);
}
