/**
 * A `testSequencer` for jest that keeps the order in TEST_ORDER. We stop at the first test that fails, so the fastest
 * ones should come first.
 */
import { createRequire } from 'node:module';
import { relative } from 'node:path';

/** @typedef {Parameters<import('@jest/test-sequencer').default['sort']>[0][number]} Test */

/** @type {typeof import('@jest/test-sequencer')} */
const { default: Sequencer } = createRequire(import.meta.url)('@jest/test-sequencer');

export default class GivenOrder extends Sequencer {
  /**
   * @override
   * @param {Test[]} tests
   * @returns {Test[]}
   */
  sort(tests) {
    const order = JSON.parse(process.env['TEST_ORDER'] ?? '[]');
    /** @param {Test} test */
    const indexOf = ({ path, context }) => order.indexOf(relative(context.config.rootDir, path));
    return tests.toSorted((a, b) => indexOf(a) - indexOf(b));
  }
}
