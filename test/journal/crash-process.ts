/**
 * A process that dies by kill -9 at a named point, for `kill.test.ts`. It says on standard output, synchronously, what it was promised: a
 * line `opened <id>` or `settled <id>` stands there only when the journal's promise had resolved.
 *
 * Arguments: what to do (`serve` or `recover`), data directory, address of the database, fault point, how often it is passed before.
 */
import { writeSync } from 'node:fs';
import { systemClock } from '../../src/core/time.ts';
import { openServerDatabase } from '../../src/db/pool.ts';
import { createDrain } from '../../src/journal/drain.ts';
import { createJournal } from '../../src/journal/journal.ts';
import { createRecovery } from '../../src/journal/recover.ts';
import { storeCalls } from '../../src/usage/store-calls.ts';
import { attemptStart, factsOf, keepingLogger, settledCall, withText } from './calls.ts';

const [task = '', dataDir = '', url = '', deadlyPoint = '', passes = '0'] = process.argv.slice(2);
const database = openServerDatabase({ connectionString: url, maxConnections: 2 });
const logger = keepingLogger();
let left = Number(passes);

const faultPoint = (name: string): void => {
  if (name !== deadlyPoint) return;
  if (left === 0) process.kill(process.pid, 'SIGKILL');
  left -= 1;
};

const say = (text: string): void => {
  writeSync(1, `${text}\n`);
};

/** Calls that settle, with every tenth that never does, for as long as the process lives. */
async function serve(): Promise<void> {
  const options = { dataDir, clock: systemClock, logger, faultPoint };
  const journal = await createJournal({ ...options, sync: false, ballastBytes: 1_000, segmentBytes: 20_000 });
  const drain = createDrain({ ...options, journal, database, store: storeCalls, intervalMs: 1 });
  drain.start();
  let number = 0;
  const callForever = async (): Promise<void> => {
    for (;;) {
      number += 1;
      const isAbandoned = number % 10 === 0;
      const startedAt = systemClock.now();
      const facts = factsOf({ startedAt });
      await journal.open(facts, { ...attemptStart, startedAt });
      say(`opened ${facts.id}`);
      if (isAbandoned) continue;
      await journal.settle(settledCall({ facts, content: withText('x'.repeat(500)) }));
      say(`settled ${facts.id}`);
    }
  };
  await Promise.all(Array.from({ length: 8 }, callForever));
}

async function recover(): Promise<void> {
  const recovery = createRecovery({
    dataDir,
    ownId: 'none',
    database,
    store: storeCalls,
    logger,
    failpoint: faultPoint,
    estimateCost: () => 7,
  });
  await recovery.recover();
  say('recovered');
  process.exit(0);
}

await (task === 'serve' ? serve() : recover());
