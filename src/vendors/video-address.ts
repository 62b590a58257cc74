/**
 * Addresses as callers of the video routes name them: operations and files. Pure.
 *
 * A caller's address is taken only as a URL parser would write it. What a parser would mend (a decimal or upper-case host, a default port, a
 * backslash, a tab, dot segments) is no honest address, so it is refused instead of being understood. Whether it is the vendor's is the host
 * rule's to say (vendor-hosts.ts).
 */
import { createHash } from 'node:crypto';
import type { VendorHosts } from './vendor-hosts.ts';
import { parseVendorAddress } from './vendor-hosts.ts';

/** A model may hold what specification 4.6 allows; neither part may be a dot segment, which an address would lose. */
const operationName = /^(?:models\/(?!\.{1,2}\/)[A-Za-z0-9._:-]+\/)?operations\/(?!\.{1,2}$)[A-Za-z0-9._-]+$/;
const maxNameLength = 1_024;

/** The operation's name out of a name or an absolute address under the vendor's base address; null for anything else. */
export function parseOperationName(text: string, baseUrl: string): string | null {
  const base = `${new URL(baseUrl).href.replace(/\/+$/, '')}/`;
  const name = text.startsWith(base) ? text.slice(base.length) : text;
  return isOperationName(name) ? name : null;
}

/** It can be asked for below the vendor's base address. */
export function isOperationName(name: string): boolean {
  return name.length <= maxNameLength && operationName.test(name);
}

/** The address of a file as a caller names it; null when it is malformed or not on a host of the vendor. */
export function parseFileAddress(text: string, hosts: VendorHosts): URL | null {
  const address = parseVendorAddress(text, hosts);
  if (address === null || address.url.href !== text || /%(?:2f|5c|00)/i.test(address.url.pathname)) return null;
  return address.url;
}

/** `files/{id}` out of the address of a file of the Gemini form, however it is written; null where the path is of something else. */
export function getFileName({ pathname }: URL): string | null {
  const id = /\/files\/([A-Za-z0-9._-]+)(?::[a-z]+)?$/i.exec(pathname)?.[1];
  return id === undefined ? null : `files/${id}`;
}

/**
 * What all spellings of a file's address have in common. A project's files are recognised by it, so that no other spelling leads to the file
 * of another project.
 */
export function getFileKey(address: string): string {
  if (!URL.canParse(address)) return address;
  const url = new URL(address);
  const key = getFileName(url) ?? `${url.host}${url.pathname}`;
  return key.length <= maxKeyLength ? key : `sha256:${createHash('sha256').update(key).digest('hex')}`;
}

/** The database's index takes none of some thousands. */
const maxKeyLength = 1_024;
