/** Tests what is logged during an outage of the database. test/service/outage.test.ts does this with a real outage. */
import { expect, test } from '@jest/globals';
import { createOutageMonitor } from '../../src/db/outage.ts';
import { createTestLog } from '../support/temporal.ts';

const quietMs = 20;
const until = async (isDone: () => boolean): Promise<void> => {
  const giveUpAt = performance.now() + 60_000;
  while (!isDone() && performance.now() < giveUpAt) await new Promise((resolve) => setTimeout(resolve, 5));
};

function setUp() {
  const { logger, lines } = createTestLog();
  const outage = createOutageMonitor(logger, quietMs);
  outage.responded();
  return { outage, lines, quiet: outage.quieten(logger) };
}

test('logs the start and end of a database outage', async () => {
  const { outage, lines, quiet } = setUp();
  const refused = new Error('connect ECONNREFUSED');
  outage.failed(new Error('the transaction could not be rolled back', { cause: refused }));
  expect(outage.isDown).toBe(true);
  for (let call = 0; call < 3; call += 1) quiet.error({ err: new Error('no_db', { cause: refused }) }, 'call failed');
  quiet.warn({ err: refused }, 'process heartbeat failed; retrying');
  outage.responded();
  expect(outage.isDown).toBe(false);
  await until(() => lines.some(({ level }) => level === 'info'));
  expect(lines.filter(({ level }) => level !== 'debug')).toEqual([
    { level: 'error', message: 'database unavailable; retrying', fields: { reason: 'connect ECONNREFUSED' } },
    {
      level: 'info',
      message: 'database recovered',
      fields: { seconds: expect.any(Number), count: 4, suppressed: { 'call failed': 3, 'process heartbeat failed; retrying': 1 } },
    },
  ]);
});

test('keeps logging unrelated errors during a database outage', () => {
  const { outage, lines, quiet } = setUp();
  outage.failed(new Error('connect ECONNREFUSED'));
  quiet.error({ err: new Error('connect ECONNREFUSED') }, 'identity provider unavailable');
  quiet.warn({}, 'quota query timed out');
  expect(lines.map(({ message }) => message)).toEqual([
    'database unavailable; retrying',
    'identity provider unavailable',
    'quota query timed out',
  ]);
});

test('treats alternating database failures and successes as one outage', async () => {
  const { outage, lines } = setUp();
  for (let statement = 0; statement < 10; statement += 1) {
    outage.failed(new Error('Query read timeout'));
    outage.responded();
  }
  await until(() => lines.length > 1);
  expect(lines.map(({ message }) => message)).toEqual(['database unavailable; retrying', 'database recovered']);
});

test('logs a single warning if several connections are lost without an outage', async () => {
  const { outage, lines } = setUp();
  for (let connection = 0; connection < 18; connection += 1) outage.connectionLost(new Error('read ECONNRESET'));
  await until(() => lines.length > 0);
  expect(lines).toEqual([{ level: 'warn', message: 'database connection lost', fields: { err: 'read ECONNRESET', count: 18 } }]);
});
