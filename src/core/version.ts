import { readFileSync } from 'node:fs';
import { asObject } from './json/narrow.ts';
import { parseJson } from './json/parse.ts';

/** Returns the gateway's version. Between releases this is the next version with the suffix `-dev`. */
export function readVersion(): string {
  return String(asObject(parseJson(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))).version);
}
