/**
 * Reads and writes test-durations.json. It has the durations of slow test files in seconds, which `npm test --
 * --record-durations` updates.
 */
import { readFileSync, writeFileSync } from 'node:fs';

const durationsFile = new URL('test-durations.json', import.meta.url);
/** Files that are faster than this aren't listed. */
const minRecordedSeconds = 1;

/** @returns {Record<string, number>} */
export function readDurations() {
  return JSON.parse(readFileSync(durationsFile, 'utf8'));
}

/** @param {readonly { path: string, seconds: number }[]} files */
export function recordDurations(files) {
  const measured = files.map(({ path, seconds }) => /** @type {const} */ ([path, Math.round(seconds)]));
  const slow = measured.filter(([, seconds]) => seconds >= minRecordedSeconds).toSorted(([a], [b]) => (a < b ? -1 : 1));
  writeFileSync(durationsFile, `${JSON.stringify(Object.fromEntries(slow), null, 2)}\n`);
}
