import { readFileSync } from 'node:fs';
import { asObject, parseJson } from './json/narrow.ts';

/** Returns the version of this program. Between releases, that's the next release followed by `-dev`. */
export function readVersion(): string {
  return String(asObject(parseJson(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))).version);
}
