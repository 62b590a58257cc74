/**
 * Reads and writes test-durations.json, which contains the durations of slow test files in seconds. `npm test --
 * --record-durations` updates it.
 */
import { readFileSync, writeFileSync } from 'node:fs';

const durationsFile = new URL('test-durations.json', import.meta.url);
/** We don't list files that are faster than this. */
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
