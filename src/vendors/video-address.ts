/**
 * Parses the operations and files that callers of the video routes name.
 *
 * We only accept a URL in the form that a URL parser would write, and reject any that a parser would change (a decimal
 * or upper-case host, a default port, a backslash, a tab, dot segments). vendor-hosts.ts decides whether the host
 * belongs to the vendor.
 */
import { createHash } from 'node:crypto';
import type { VendorHosts } from './vendor-hosts.ts';
import { parseVendorAddress } from './vendor-hosts.ts';

/** Neither part can be a dot segment, because URL parsing would remove it. */
const operationName = /^(?:models\/(?!\.{1,2}\/)[A-Za-z0-9._:-]+\/)?operations\/(?!\.{1,2}$)[A-Za-z0-9._-]+$/;
const maxNameLength = 1_024;

/** Returns the operation's name from a name or a URL below the vendor's base URL. Returns null for anything else. */
export function parseOperationName(text: string, baseUrl: string): string | null {
  const base = `${new URL(baseUrl).href.replace(/\/+$/, '')}/`;
  const name = text.startsWith(base) ? text.slice(base.length) : text;
  return isOperationName(name) ? name : null;
}

/** Reports whether we can poll an operation of this name below the vendor's base URL. */
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
 * Returns a key that is the same for all spellings of a file's URL, so that nobody can use a different spelling to
 * access another project's file.
 */
export function getFileKey(address: string): string {
  if (!URL.canParse(address)) return address;
  const url = new URL(address);
  const key = getFileName(url) ?? `${url.host}${url.pathname}`;
  return key.length <= maxKeyLength ? key : `sha256:${createHash('sha256').update(key).digest('hex')}`;
}

/** PostgreSQL rejects index entries that are longer than about 2,700 bytes. */
const maxKeyLength = 1_024;
