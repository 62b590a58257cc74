/**
 * Parses the operations and files that callers of the video routes name. Pure.
 *
 * A URL is accepted only in the form that a URL parser would write. One that a parser would change (a decimal or upper-case host, a default
 * port, a backslash, a tab, dot segments) is rejected. vendor-hosts.ts decides whether its host belongs to the vendor.
 */
import { createHash } from 'node:crypto';
import type { VendorHosts } from './vendor-hosts.ts';
import { parseVendorAddress } from './vendor-hosts.ts';

/** Neither part may be a dot segment, which URL parsing would remove. */
const operationName = /^(?:models\/(?!\.{1,2}\/)[A-Za-z0-9._:-]+\/)?operations\/(?!\.{1,2}$)[A-Za-z0-9._-]+$/;
const maxNameLength = 1_024;

/** Returns the operation name from a name or a URL below the vendor's base URL; null for anything else. */
export function parseOperationName(text: string, baseUrl: string): string | null {
  const base = `${new URL(baseUrl).href.replace(/\/+$/, '')}/`;
  const name = text.startsWith(base) ? text.slice(base.length) : text;
  return isOperationName(name) ? name : null;
}

/** Reports whether a name can be polled below the vendor's base URL. */
export function isOperationName(name: string): boolean {
  return name.length <= maxNameLength && operationName.test(name);
}

/** Parses the URL of a file; null when it is malformed or not on a host of the vendor. */
export function parseFileAddress(text: string, hosts: VendorHosts): URL | null {
  const address = parseVendorAddress(text, hosts);
  if (address === null || address.url.href !== text || /%(?:2f|5c|00)/i.test(address.url.pathname)) return null;
  return address.url;
}

/** Returns `files/{id}` from the URL of a Gemini file in any spelling; null when the path is not one of a file. */
export function getFileName({ pathname }: URL): string | null {
  const id = /\/files\/([A-Za-z0-9._-]+)(?::[a-z]+)?$/i.exec(pathname)?.[1];
  return id === undefined ? null : `files/${id}`;
}

/** Returns a key that is equal for all spellings of a file's URL, so that no spelling gives access to another project's file. */
export function getFileKey(address: string): string {
  if (!URL.canParse(address)) return address;
  const url = new URL(address);
  const key = getFileName(url) ?? `${url.host}${url.pathname}`;
  return key.length <= maxKeyLength ? key : `sha256:${createHash('sha256').update(key).digest('hex')}`;
}

/** PostgreSQL rejects index entries of more than about 2,700 bytes. */
const maxKeyLength = 1_024;
