/**
 * Formats and parses a comma-separated list of application names. Names are quoted if they contain a comma or a
 * quotation mark, or if they begin or end with a space.
 */
import { gatewayError } from '../../core/errors.ts';

export function formatSenders(names: readonly string[]): string {
  return names.map((name) => (/[",]|^\s|\s$/.test(name) ? `"${name.replaceAll('"', '""')}"` : name)).join(', ');
}

/** Empty entries and duplicates are ignored. Throws `bad_request` if a quotation mark isn't closed. */
export function parseSenders(text: string): string[] {
  const names = Array.from(text.matchAll(/\s*(?:"((?:[^"]|"")*)"\s*(?=,|$)|([^,]*))(?:,|$)/g), ([, quoted, plain = '']) =>
    quoted === undefined ? parsePlain(plain) : quoted.replaceAll('""', '"'),
  );
  return [...new Set(names.filter((name) => name !== ''))];
}

function parsePlain(text: string): string {
  const name = text.trim();
  if (name.startsWith('"'))
    throw gatewayError('bad_request', { issues: [{ path: 'only_senders', message: 'a closing quotation mark is missing' }] });
  return name;
}
