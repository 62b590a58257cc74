/**
 * The host rule: which addresses that a vendor or a caller names may be asked at all, and which of them may see the provider's key.
 *
 * An address is judged after the URL parser has read it, since that is what will be asked: scheme, host and port must equal those of the
 * provider's base address, or of one of its asset hosts. Whatever the parser would first have to repair (spaces, invisible characters,
 * backslashes, missing slashes, user-info) is refused, because others may read it differently. Pure: no name is resolved here.
 */

/** Where a provider's files and operations may lie. */
export interface VendorHosts {
  /** Scheme, host and port of its base address: the only place that gets its key. */
  readonly origin: string;
  readonly assetOrigins: readonly string[];
}

/** An address that may be asked. */
export interface VendorAddress {
  readonly url: URL;
  /** It is the provider's own: its key may go there. */
  readonly isProviderOrigin: boolean;
}

/** `assetHosts` are hosts, or hosts with a port: with https, and without it only where the provider itself is asked so. */
export function buildVendorHosts(baseUrl: string, assetHosts: readonly string[]): VendorHosts {
  const base = new URL(baseUrl);
  const schemes = new Set(['https:', base.protocol]);
  return {
    origin: base.origin,
    assetOrigins: assetHosts.flatMap((host) => [...schemes].map((scheme) => new URL(`${scheme}//${host}`).origin)),
  };
}

/** No vendor has longer ones; Google's signed addresses are the longest, of about 2,000 characters. */
const maxAddressLength = 8_192;

const ambiguousCharacters = /[\p{C}\s\\]/u;

/** It can be an address, of whomever. */
export function isAddress(text: string): boolean {
  return text.length <= maxAddressLength && !ambiguousCharacters.test(text) && URL.canParse(text);
}

/** An absolute address by the rule; null: it may not be asked. */
export function parseVendorAddress(text: string, hosts: VendorHosts): VendorAddress | null {
  if (!isAddress(text)) return null;
  const authority = /^https?:\/\/([^/?#]+)/i.exec(text)?.[1];
  if (authority === undefined || authority.includes('@')) return null;
  const url = new URL(text);
  const isProviderOrigin = url.origin === hosts.origin;
  return isProviderOrigin || hosts.assetOrigins.includes(url.origin) ? { url, isProviderOrigin } : null;
}

/** Where a redirect of `from` leads, by the same rule. A relative one stays at its host. */
export function resolveRedirect(location: string, from: URL, hosts: VendorHosts): VendorAddress | null {
  if (/^[a-z][a-z0-9+.-]*:/i.test(location)) return parseVendorAddress(location, hosts);
  if (ambiguousCharacters.test(location) || !URL.canParse(location, from.href)) return null;
  return parseVendorAddress(new URL(location, from).href, hosts);
}
