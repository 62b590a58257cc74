/**
 * A `testSequencer` for jest. It starts the slowest files first, so that no worker is left with a slow file at the end.
 */
import { createRequire } from 'node:module';
import { relative } from 'node:path';
import { readDurations } from './test-durations.js';

/** @typedef {Parameters<import('@jest/test-sequencer').default['sort']>[0][number]} Test */

/** @type {typeof import('@jest/test-sequencer')} */
const { default: Sequencer } = createRequire(import.meta.url)('@jest/test-sequencer');

/**
 * The duration that we assume for a file without a recorded duration. Such a file is either fast or new. A new one
 * might be slow, so it starts before the files that we know to be fast.
 */
const unknownSeconds = 10;

export default class SlowestFirst extends Sequencer {
  /**
   * @override
   * @param {Test[]} tests
   * @returns {Test[]}
   */
  sort(tests) {
    const durations = readDurations();
    /** @param {Test} test */
    const secondsOf = ({ path, context }) => durations[relative(context.config.rootDir, path)] ?? unknownSeconds;
    return tests.toSorted((a, b) => secondsOf(b) - secondsOf(a) || (a.path < b.path ? -1 : 1));
  }
}
