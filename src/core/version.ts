import { readFileSync } from 'node:fs';
import { asObject, parseJson } from './json/narrow.ts';

/** The release of this program; between releases the next one with `-dev` at its end. */
export function readVersion(): string {
  return String(asObject(parseJson(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))).version);
}
