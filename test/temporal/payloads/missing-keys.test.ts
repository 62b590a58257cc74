import { expect, test } from '@jest/globals';
import { createMissingKeys } from '../../../src/temporal/payloads/missing-keys.ts';
import { createTestLog } from '../../support/temporal.ts';

test('logs a missing payload key no more than once a minute', () => {
  let now = 1_000_000;
  const { logger, lines } = createTestLog();
  const missing = createMissingKeys({ clock: { now: () => now }, logger });
  const logged = () => lines.map(({ fields }) => fields);

  missing.report('a', 'conversation/1');
  missing.report('a', 'conversation/2');
  missing.report('b');
  expect(logged()).toEqual([
    { payloadKey: 'a', workflowIds: ['conversation/1'] },
    { payloadKey: 'b', workflowIds: [] },
  ]);
  now += 60_000;
  missing.report('a', 'conversation/1');
  expect(logged().at(-1)).toEqual({ payloadKey: 'a', workflowIds: ['conversation/2', 'conversation/1'] });
  expect(missing.ids()).toEqual(['a', 'b']);
  now += 15 * 60_000;
  expect(missing.ids()).toEqual(['a']);
  now += 1;
  expect(missing.ids()).toEqual([]);
});
