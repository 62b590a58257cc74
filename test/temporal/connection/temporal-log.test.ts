import { expect, test } from '@jest/globals';
import { createSdkLogger } from '../../../src/temporal/connection/temporal-log.ts';
import { createTestLog } from '../../support/temporal.ts';

test('logs similar warnings of the Temporal SDK only once a minute', () => {
  const { logger, lines } = createTestLog();
  const { warn } = createSdkLogger(logger);
  warn('[TMPRL1104] 01a20f9f-d530-7399-beb3-a95ddc391fa2:4:1 Workflow task duration exceeded 5 seconds.');
  warn('[TMPRL1104] 01a20f9f-d5d1-70dd-bff7-883c0043bedf:7:1 Workflow task duration exceeded 5 seconds.');
  warn('Worker slots are exhausted.');
  expect(lines.map(({ level, message }) => [level, message.slice(-20)])).toEqual([
    ['warn', ' exceeded 5 seconds.'],
    ['debug', ' exceeded 5 seconds.'],
    ['warn', 'slots are exhausted.'],
  ]);
});
