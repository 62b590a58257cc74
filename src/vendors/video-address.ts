/**
 * Parses the operations and file URLs in requests to the video routes.
 *
 * We only accept URLs that a URL parser leaves unchanged. This rules out decimal or upper-case hosts, default ports,
 * backslashes, tabs and dot segments. vendor-hosts.ts decides whether the host belongs to the vendor.
 */
import { createHash } from 'node:crypto';
import { parseVendorAddress, type VendorHosts } from './vendor-hosts.ts';

/**
 * Matches the name of an operation. The model and the id can't be `.` or `..`, because a URL parser would remove them.
 */
const operationName = /^(?:models\/(?!\.{1,2}\/)[A-Za-z0-9._:-]+\/)?operations\/(?!\.{1,2}$)[A-Za-z0-9._-]+$/;
const maxNameLength = 1_024;

/**
 * Returns the name of an operation. The text can be the name itself, or a URL below the vendor's base URL. Returns null
 * for anything else.
 */
export function parseOperationName(text: string, baseUrl: string): string | null {
  const base = `${new URL(baseUrl).href.replace(/\/+$/, '')}/`;
  const name = text.startsWith(base) ? text.slice(base.length) : text;
  return isOperationName(name) ? name : null;
}

/** Checks that the name is an operation's, so that we can poll it. */
export function isOperationName(name: string): boolean {
  return name.length <= maxNameLength && operationName.test(name);
}

/** Parses the URL of a file. Returns null if it's malformed or isn't on one of the vendor's hosts. */
export function parseFileAddress(text: string, hosts: VendorHosts): URL | null {
  const address = parseVendorAddress(text, hosts);
  if (address === null || address.url.href !== text || /%(?:2f|5c|00)/i.test(address.url.pathname)) return null;
  return address.url;
}

/** Returns `files/{id}` for any spelling of a Gemini file's URL, or null if it isn't the path of a file. */
export function getFileName({ pathname }: URL): string | null {
  const id = /\/files\/([A-Za-z0-9._-]+)(?::[a-z]+)?$/i.exec(pathname)?.[1];
  return id === undefined ? null : `files/${id}`;
}

/**
 * Returns a key that is the same for all spellings of a file's URL. Without it, a different spelling could give access
 * to another project's file.
 */
export function getFileKey(address: string): string {
  if (!URL.canParse(address)) return address;
  const url = new URL(address);
  const key = getFileName(url) ?? `${url.host}${url.pathname}`;
  return key.length <= maxKeyLength ? key : `sha256:${createHash('sha256').update(key).digest('hex')}`;
}

/** PostgreSQL rejects index entries that are longer than about 2,700 bytes. */
const maxKeyLength = 1_024;
