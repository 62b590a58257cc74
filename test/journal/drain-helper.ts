/** A journal that drains into memory. */
import type { SettledCall } from '../../src/core/call.ts';
import { createDrain, type Drain, type DrainOptions } from '../../src/journal/drain.ts';
import { createJournal, type Journal, type JournalOptions } from '../../src/journal/journal.ts';
import { clockAt, emptyDatabase, keepingLogger, noon, withFolder } from './calls.ts';

export interface DrainTest {
  dataDir: string;
  journal: Journal;
  drain: Drain;
  database: ReturnType<typeof emptyDatabase>;
  clock: ReturnType<typeof clockAt>;
  logger: ReturnType<typeof keepingLogger>;
  /** Every batch that was stored, in order. */
  batches: SettledCall[][];
}

type DrainTestOptions = Partial<DrainOptions> & {
  rejects?: (call: SettledCall) => boolean;
  segmentBytes?: number;
  journalOptions?: Partial<JournalOptions>;
};

/** Runs `work` with a drain that stores into memory. `rejects` selects the calls that the database rejects. */
export function withDrain(
  work: (setup: DrainTest) => Promise<void>,
  { rejects = () => false, segmentBytes = 50_000, journalOptions = {}, ...options }: DrainTestOptions = {},
) {
  return withFolder(async (dataDir) => {
    const [clock, logger, database] = [clockAt(noon), keepingLogger(), emptyDatabase()];
    const journal = await createJournal({ dataDir, clock, logger, sync: false, ballastBytes: 100, segmentBytes, ...journalOptions });
    const batches: SettledCall[][] = [];
    const drain = createDrain({
      dataDir,
      journal,
      database,
      clock,
      logger,
      intervalMs: 5,
      minAsideMs: 0,
      async store(_tx, calls) {
        if (calls.some(rejects)) throw Object.assign(new Error('invalid input'), { code: '22P02' });
        batches.push([...calls]);
      },
      ...options,
    });
    try {
      await work({ dataDir, journal, drain, database, clock, logger, batches });
    } finally {
      await drain.stop(1_000);
      await journal.close();
    }
  });
}

export const idsOf = (batches: readonly (readonly SettledCall[])[]): string[] => batches.flat().map(({ metadata }) => metadata.id);
