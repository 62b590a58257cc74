/**
 * A `testSequencer` for jest that starts the slowest files first. If they came last, all workers would have to wait for
 * one of them.
 */
import { createRequire } from 'node:module';
import { relative } from 'node:path';
import { readDurations } from './test-durations.js';

/** @typedef {Parameters<import('@jest/test-sequencer').default['sort']>[0][number]} Test */

/** @type {typeof import('@jest/test-sequencer')} */
const { default: Sequencer } = createRequire(import.meta.url)('@jest/test-sequencer');

/**
 * What we assume for a file that has no recorded duration. Usually it's fast, but it may also be a new file that is
 * slow. So it starts before all files that we know to be fast.
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
