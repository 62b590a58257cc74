/** Names of applications as one line of text, separated by commas. A name with a comma, a quotation mark or outer spaces is quoted. */
import { gatewayError } from '../../core/errors.ts';

export function formatSenders(names: readonly string[]): string {
  return names.map((name) => (/[",]|^\s|\s$/.test(name) ? `"${name.replaceAll('"', '""')}"` : name)).join(', ');
}

/** Each name once; empty entries are ignored. Throws `bad_request` for a quotation mark without a second one. */
export function parseSenders(text: string): string[] {
  const names = Array.from(text.matchAll(/\s*(?:"((?:[^"]|"")*)"\s*(?=,|$)|([^,]*))(?:,|$)/g), ([, quoted, plain = '']) =>
    quoted === undefined ? parsePlain(plain) : quoted.replaceAll('""', '"'),
  );
  return [...new Set(names.filter((name) => name !== ''))];
}

function parsePlain(text: string): string {
  const name = text.trim();
  if (name.startsWith('"'))
    throw gatewayError('bad_request', { issues: [{ path: 'only_senders', message: 'a quotation mark is not closed' }] });
  return name;
}
