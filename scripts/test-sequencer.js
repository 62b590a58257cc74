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
 * We assume this duration for files that don't have a recorded one. Most of them are fast, but a new file may be slow,
 * so they start before the files that we know to be fast.
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
