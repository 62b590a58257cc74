/**
 * Jest's `testSequencer`, which starts the slowest files first so that no worker is left with a long one at the end.
 */
import { createRequire } from 'node:module';
import { relative } from 'node:path';
import { readDurations } from './test-durations.js';

/** @typedef {Parameters<import('@jest/test-sequencer').default['sort']>[0][number]} Test */

/** @type {typeof import('@jest/test-sequencer')} */
const { default: Sequencer } = createRequire(import.meta.url)('@jest/test-sequencer');

export default class SlowestFirst extends Sequencer {
  /**
   * @override
   * @param {Test[]} tests
   * @returns {Test[]}
   */
  sort(tests) {
    const durations = readDurations();
    /** @param {Test} test */
    const secondsOf = ({ path, context }) => durations[relative(context.config.rootDir, path)] ?? 0;
    return tests.toSorted((a, b) => secondsOf(b) - secondsOf(a) || (a.path < b.path ? -1 : 1));
  }
}
