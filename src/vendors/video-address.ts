/**
 * Parses the operations and file URLs in requests to the video routes.
 *
 * We don't accept a URL if a URL parser would change it. That rules out decimal or upper-case hosts, default ports,
 * backslashes, tabs and dot segments. Whether the host belongs to the vendor is up to vendor-hosts.ts.
 */
import { createHash } from 'node:crypto';
import { trimEnd } from '../core/trim.ts';
import { parseVendorAddress, type VendorHosts } from './vendor-hosts.ts';

/**
 * Matches the name of an operation. Neither the model nor the id can be `.` or `..`, because URL parsers remove those.
 */
const operationName = /^(?:models\/(?!\.{1,2}\/)[A-Za-z0-9._:-]+\/)?operations\/(?!\.{1,2}$)[A-Za-z0-9._-]+$/;
const maxNameLength = 1_024;

/**
 * Returns the operation's name, given either that name or a URL below the vendor's base URL. Returns null for anything
 * else.
 */
export function parseOperationName(text: string, baseUrl: string): string | null {
  const base = `${trimEnd(new URL(baseUrl).href, '/')}/`;
  const name = text.startsWith(base) ? text.slice(base.length) : text;
  return isOperationName(name) ? name : null;
}

/** Checks that this is the name of an operation, and not some other path that the vendor would serve. */
export function isOperationName(name: string): boolean {
  return name.length <= maxNameLength && operationName.test(name);
}

/** Parses the URL of a file. Returns null if it's malformed or on a host that isn't the vendor's. */
export function parseFileAddress(text: string, hosts: VendorHosts): URL | null {
  const address = parseVendorAddress(text, hosts);
  if (address === null || address.url.href !== text || /%(?:2f|5c|00)/i.test(address.url.pathname)) return null;
  return address.url;
}

/** Returns `files/{id}` for any spelling of a Gemini file's URL. Returns null if it isn't the URL of a file. */
export function getFileName({ pathname }: URL): string | null {
  const id = /\/files\/([A-Za-z0-9._-]+)(?::[a-z]+)?$/i.exec(pathname)?.[1];
  return id === undefined ? null : `files/${id}`;
}

/**
 * Returns the same key for all spellings of a file's URL. Otherwise, another spelling would give access to a file of
 * another project.
 */
export function getFileKey(address: string): string {
  if (!URL.canParse(address)) return address;
  const url = new URL(address);
  const key = getFileName(url) ?? `${url.host}${url.pathname}`;
  return key.length <= maxKeyLength ? key : `sha256:${createHash('sha256').update(key).digest('hex')}`;
}

/** PostgreSQL doesn't accept index entries longer than about 2,700 bytes. */
const maxKeyLength = 1_024;
