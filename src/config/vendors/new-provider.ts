import { isMap, parseDocument, stringify } from 'yaml';
import type { CloudIdentity, VendorDescription } from './vendor-description.ts';

export interface NewProvider {
  readonly name: string;
  readonly vendor: VendorDescription;
  readonly parameters: Readonly<Record<string, string>>;
  /**
   * Where the credentials come from: an environment variable with the API key, or a cloud identity. Null if the
   * provider needs none.
   */
  readonly credential:
    | { readonly variable: string }
    | { readonly identity: CloudIdentity['type']; readonly credentialsFile?: string }
    | null;
  /** Maps model names in the catalog to the vendor's names for the same models. */
  readonly modelNames: Readonly<Record<string, string>>;
}

/** Returns the provider's row in the format of gateway.yaml. */
export function toProviderRow({ vendor, parameters, credential, modelNames }: NewProvider): Record<string, unknown> {
  const fillIn = (text: string): string => text.replace(/\{(\w+)\}/g, (placeholder, name: string) => parameters[name] ?? placeholder);
  const baseUrl = fillIn(vendor.baseUrl);
  const ownHeaders = Object.entries(vendor.headers ?? {}).filter(([, value]) => fillIn(value) !== value);
  return {
    vendor: vendor.name,
    ...(baseUrl !== vendor.baseUrl && { base_url: vendor.correctBaseUrl?.(baseUrl) ?? baseUrl }),
    ...(ownHeaders.length > 0 && { headers: Object.fromEntries(ownHeaders.map(([header, value]) => [header, fillIn(value)])) }),
    ...(credential !== null && toCredentialSettings(credential)),
    ...(Object.keys(modelNames).length > 0 && { model_names: modelNames }),
  };
}

function toCredentialSettings(credential: NonNullable<NewProvider['credential']>): Record<string, unknown> {
  if ('variable' in credential) return { api_key: `\${${credential.variable}}` };
  const { identity, credentialsFile } = credential;
  return { auth: { type: identity, ...(credentialsFile !== undefined && { credentials_file: credentialsFile }) } };
}

/**
 * Adds a row to a section of gateway.yaml and leaves the rest of the text unchanged. Returns null if we can't add to
 * the section, e.g. because it's written in braces or is an alias.
 */
export function addToSection(text: string, section: string, name: string, row: unknown): string | null {
  const document = parseDocument(text);
  if (document.errors.length > 0 || !(document.contents === null || (isMap(document.contents) && !document.contents.flow))) return null;
  const existing = document.has(section) ? document.get(section, true) : null;
  if (!document.has(section)) return `${endLine(text)}${text.trim() === '' ? '' : '\n'}${stringify({ [section]: { [name]: row } })}`;
  if (!isMap(existing) || existing.flow || !existing.range || existing.items.length === 0) return null;
  const [start, , end] = existing.range;
  const indent = ' '.repeat(start - (text.lastIndexOf('\n', start - 1) + 1));
  if (indent === '') return null;
  const lines = stringify({ [name]: row })
    .trimEnd()
    .split('\n');
  const block = lines.map((line) => `${indent}${line}\n`).join('');
  // Comments and blank lines after the last row belong to the next section, so insert the new row before them.
  const lastLine = endOfRows(text, start, end);
  return `${endLine(text.slice(0, lastLine))}${block}${text.slice(lastLine)}`;
}

function endLine(text: string): string {
  return text === '' || text.endsWith('\n') ? text : `${text}\n`;
}

/** Returns the end of the last row, i.e. without the blank lines and unindented comments after it. */
function endOfRows(text: string, start: number, end: number): number {
  let at = end;
  for (;;) {
    const lineStart = text.lastIndexOf('\n', at - 2) + 1;
    const line = text.slice(lineStart, at);
    if (lineStart <= start || !/^(?:\s*|#.*)\n?$/.test(line)) return at;
    at = lineStart;
  }
}
