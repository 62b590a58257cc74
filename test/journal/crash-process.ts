/**
 * A process that kills itself with SIGKILL at a failpoint, for `kill.test.ts`. It reports confirmed writes on standard
 * output. A line `opened <id>` or `settled <id>` is written synchronously, and only after the journal's promise has
 * resolved.
 *
 * The arguments are what to do (`serve` or `recover`), the data directory, the database URL, the failpoint, and how
 * often to pass the failpoint before the kill.
 */
import { writeSync } from 'node:fs';
import type { SettledCall } from '../../src/core/call.ts';
import { rememberRepetition } from '../../src/core/repeated-parts.ts';
import { systemClock } from '../../src/core/time.ts';
import type { Queries } from '../../src/db/database.ts';
import { createDrain } from '../../src/journal/drain.ts';
import { createJournal } from '../../src/journal/journal.ts';
import { createRecovery } from '../../src/journal/recover.ts';
import { storeCalls } from '../../src/usage/store-calls.ts';
import { openTestDatabase } from '../support/postgres-database.ts';
import { attemptStart, factsOf, keepingLogger, settledCall } from './calls.ts';

const [task = '', dataDir = '', url = '', killPoint = '', passes = '0'] = process.argv.slice(2);
const database = openTestDatabase(url, 2);
const logger = keepingLogger();
let remaining = Number(passes);
/** Every body begins with this, so the journal writes it once per segment. */
const history = 'the history '.repeat(800);

const failpoint = (name: string): void => {
  if (name !== killPoint) return;
  if (remaining === 0) process.kill(process.pid, 'SIGKILL');
  remaining -= 1;
};

const report = (text: string): void => {
  writeSync(1, `${text}\n`);
};

/** Opens and settles calls until the process dies. Every tenth call is never settled. */
async function serve(): Promise<void> {
  const options = { dataDir, clock: systemClock, logger, failpoint };
  const journal = await createJournal({ ...options, sync: false, ballastBytes: 1_000, segmentBytes: 20_000 });
  // There is so little memory that the drain also reads calls from disk.
  const drain = createDrain({ ...options, journal, database, store, intervalMs: 1, recentBytes: 5_000 });
  drain.start();
  let number = 0;
  const callForever = async (): Promise<void> => {
    for (;;) {
      number += 1;
      const isUnsettled = number % 10 === 0;
      const startedAt = systemClock.now();
      const metadata = factsOf({ startedAt });
      await journal.open(metadata, { ...attemptStart, startedAt });
      report(`opened ${metadata.id}`);
      if (isUnsettled) continue;
      await journal.settle(settledCall({ metadata, content: { request: bodyOf(metadata.id), response: null } }));
      report(`settled ${metadata.id}`);
    }
  };
  await Promise.all(Array.from({ length: 8 }, callForever));
}

function bodyOf(id: string): Buffer {
  const body = Buffer.from(`${history}${id}`);
  rememberRepetition(body, { parts: [{ start: 0, end: history.length, fingerprint: 'history' }], newBytes: body.length });
  return body;
}

/** Reports calls that have a different body than the one they were settled with, and stores all of them. */
async function store(tx: Queries, calls: readonly SettledCall[]): Promise<void> {
  for (const { metadata, content } of calls)
    if (content && content.request.toString() !== `${history}${metadata.id}`) report(`damaged ${metadata.id}`);
  await storeCalls(tx, calls);
}

async function recover(): Promise<void> {
  const recovery = createRecovery({
    dataDir,
    ownId: 'none',
    database,
    store,
    logger,
    failpoint,
    estimateCost: () => 7,
  });
  await recovery.recover();
  report('recovered');
  process.exit(0);
}

await (task === 'serve' ? serve() : recover());
