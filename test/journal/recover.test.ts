import { existsSync } from 'node:fs';
import { appendFile, copyFile, mkdir, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import type { SettledCall } from '../../src/core/call.ts';
import { acquireFileLock } from '../../src/core/file-lock.ts';
import { createJournal, type Journal } from '../../src/journal/journal.ts';
import { createRecovery, type RecoveryOptions } from '../../src/journal/recover.ts';
import { segmentName } from '../../src/journal/segment-name.ts';
import { storeCalls } from '../../src/usage/store-calls.ts';
import { describeDatabases } from '../db/databases.ts';
import {
  attemptStart,
  clockAt,
  connectionFault,
  emptyDatabase,
  factsOf,
  keepingLogger,
  noon,
  settledCall,
  until,
  withFolder,
} from './calls.ts';

/** What a process leaves behind that wrote `work` and died: the files of its journal under another name, with a lock that nobody holds. */
async function leaveBehind(dataDir: string, work: (journal: Journal) => Promise<void>): Promise<string> {
  const journal = await createJournal({ dataDir, clock: clockAt(noon), logger: keepingLogger(), sync: false, ballastBytes: 100 });
  await work(journal);
  const dead = join(dataDir, 'journal', `${journal.id.slice(0, -4)}dead`);
  await mkdir(dead);
  for (const name of await readdir(journal.folder)) {
    if (name.startsWith('segment')) await copyFile(join(journal.folder, name), join(dead, name));
  }
  await journal.close();
  await rm(journal.folder, { recursive: true, force: true });
  return dead;
}

interface Lent {
  recovery: ReturnType<typeof createRecovery>;
  database: ReturnType<typeof emptyDatabase>;
  logger: ReturnType<typeof keepingLogger>;
  stored: SettledCall[];
}

function withRecovery(dataDir: string, work: (lent: Lent) => Promise<void>, options: Partial<RecoveryOptions> = {}): Promise<void> {
  const [database, logger] = [emptyDatabase(), keepingLogger()];
  const stored: SettledCall[] = [];
  const store = async (_tx: unknown, calls: readonly SettledCall[]): Promise<void> => {
    stored.push(...calls);
  };
  const recovery = createRecovery({ dataDir, ownId: 'own', database, store, logger, ...options });
  return work({ recovery, database, logger, stored }).finally(() => recovery.stop());
}

describe('recovery', () => {
  test('a call without an end is settled as unknown, at an estimate of what was asked, with its attempts', () =>
    withFolder(async (dataDir) => {
      const facts = factsOf({ bodyBytes: 1_001 });
      const [ended, second] = [settledCall(), { n: 2, provider: 'anthropic', model: 'claude', startedAt: noon + 30 }];
      await leaveBehind(dataDir, async (journal) => {
        await journal.open(ended.facts, attemptStart);
        await journal.open(facts, attemptStart);
        await journal.attempt(facts.id, second);
        await journal.settle(ended);
      });
      const asked: unknown[] = [];
      await withRecovery(
        dataDir,
        async ({ recovery, stored }) => {
          expect(await recovery.recover()).toBe(1);
          const tokens = { input: 251, cachedInput: 0, cacheWrite: 0, cacheWrite1h: 0, output: 0 };
          const none = { ...tokens, input: 0 };
          const unknown = { status: null, outcome: 'unknown', waitMs: 0, firstByteMs: null, durationMs: 0 };
          expect(stored).toEqual([
            ended,
            {
              facts,
              result: {
                outcome: 'unknown',
                status: 500,
                code: null,
                model: 'anthropic/claude',
                cache: null,
                tokens,
                costNanos: 42,
                estimated: true,
                durationMs: 30,
                firstByteMs: null,
                attempts: [
                  { ...attemptStart, ...unknown, tokens: none, costNanos: 0 },
                  { ...second, ...unknown, tokens, costNanos: 42 },
                ],
              },
              content: null,
            },
          ]);
          expect(asked).toEqual([['anthropic/claude', { tokens, units: {}, searches: 0 }]]);
          expect(await readdir(join(dataDir, 'journal'))).toEqual([]);
        },
        {
          estimateCost(model, wanted) {
            asked.push([model, wanted]);
            return 42;
          },
        },
      );
    }));

  test('a rerank without an end is one search', () =>
    withFolder(async (dataDir) => {
      await leaveBehind(dataDir, (journal) => journal.open(factsOf({ route: 'rerank' }), attemptStart));
      await withRecovery(
        dataDir,
        async ({ recovery, stored }) => {
          await recovery.recover();
          expect(stored).toMatchObject([{ result: { outcome: 'unknown', costNanos: 2_000 } }]);
        },
        { estimateCost: (_model, { searches }) => searches * 2_000 },
      );
    }));

  test('a last record that is torn is not read; all before it is', () =>
    withFolder(async (dataDir) => {
      const [whole, torn] = [settledCall(), settledCall()];
      const folder = await leaveBehind(dataDir, async (journal) => {
        await journal.settle(whole);
        await journal.settle(torn);
      });
      const file = join(folder, segmentName(1));
      await truncate(file, (await readFile(file)).length - 1);
      await withRecovery(dataDir, async ({ recovery, stored }) => {
        await recovery.recover();
        expect(stored).toEqual([whole]);
        expect(existsSync(join(dataDir, 'journal', 'quarantine'))).toBe(false);
      });
    }));

  test('damage in the middle costs what stands behind it in its segment, of which a copy is kept', () =>
    withFolder(async (dataDir) => {
      const [first, later] = [settledCall(), settledCall()];
      const folder = await leaveBehind(dataDir, async (journal) => {
        await journal.settle(first);
        await journal.seal();
        await journal.settle(later);
      });
      await appendFile(join(folder, segmentName(1)), Buffer.alloc(4_096));
      await withRecovery(dataDir, async ({ recovery, stored }) => {
        await recovery.recover();
        expect(stored).toEqual([first, later]);
        expect(await readdir(join(dataDir, 'journal', 'quarantine'))).toHaveLength(1);
      });
    }));

  test('the journal of a living process is left alone', () =>
    withFolder(async (dataDir) => {
      const journal = await createJournal({ dataDir, clock: clockAt(noon), logger: keepingLogger(), sync: false, ballastBytes: 100 });
      await journal.settle(settledCall());
      await withRecovery(dataDir, async ({ recovery, stored }) => {
        expect(await recovery.recover()).toBe(0);
        expect(stored).toEqual([]);
      });
      await journal.close();
    }));

  test('with the database away the adoption waits, and goes on where it stopped', () =>
    withFolder(async (dataDir) => {
      const call = settledCall();
      const folder = await leaveBehind(dataDir, (journal) => journal.settle(call));
      await withRecovery(
        dataDir,
        async ({ recovery, database, stored }) => {
          database.fail(connectionFault());
          await expect(recovery.recover()).rejects.toThrow('some journals could not be recovered');
          expect(await acquireFileLock(join(folder, 'owner.lock'))).toBeNull();
          database.fail(null);
          recovery.start();
          await until(() => stored.length === 1, 'the call is stored');
          await until(() => !existsSync(folder), 'the folder is gone');
        },
        { intervalMs: 5 },
      );
    }));

  test('one folder that cannot be recovered does not keep the others', () =>
    withFolder(async (dataDir) => {
      const call = settledCall();
      const bad = join(dataDir, 'journal', '01900000-0000-7000-8000-00000000bad0');
      await mkdir(join(bad, segmentName(1)), { recursive: true });
      await leaveBehind(dataDir, (journal) => journal.settle(call));
      await withRecovery(dataDir, async ({ recovery, stored }) => {
        await expect(recovery.recover()).rejects.toThrow('some journals could not be recovered');
        expect(stored).toEqual([call]);
      });
    }));

  test('what else was in the name of the dead process is given back before its folder goes', () =>
    withFolder(async (dataDir) => {
      const folder = await leaveBehind(dataDir, (journal) => journal.settle(settledCall()));
      const told: string[] = [];
      const onRecovered = async (journalId: string): Promise<void> => {
        expect(existsSync(folder)).toBe(true);
        told.push(journalId);
      };
      await withRecovery(dataDir, async ({ recovery }) => void (await recovery.recover()), { onRecovered });
      expect(told).toEqual([folder.slice(-36)]);
    }));

  test('files and folders that are no journal are not touched', () =>
    withFolder(async (dataDir) => {
      await mkdir(join(dataDir, 'journal', 'quarantine'), { recursive: true });
      await writeFile(join(dataDir, 'journal', 'notes.txt'), 'mine');
      await withRecovery(dataDir, async ({ recovery }) => {
        expect(await recovery.recover()).toBe(0);
      });
      expect((await readdir(join(dataDir, 'journal'))).sort()).toEqual(['notes.txt', 'quarantine']);
    }));
});

describeDatabases('recovery to tables', (database) => {
  test('a segment that is there twice is stored once, and a call of it that ended is not settled as unknown', () =>
    withFolder(async (dataDir) => {
      const calls = Array.from({ length: 5 }, () => settledCall());
      const open = factsOf();
      const folder = await leaveBehind(dataDir, async (journal) => {
        for (const call of calls) await journal.open(call.facts, attemptStart);
        for (const call of calls) await journal.settle(call);
        await journal.open(open, attemptStart);
      });
      await copyFile(join(folder, segmentName(1)), join(folder, segmentName(7)));
      const recovery = createRecovery({ dataDir, ownId: 'own', database: database(), store: storeCalls, logger: keepingLogger() });
      await recovery.recover();
      await recovery.stop();
      const rows = await database().query(
        `select outcome, count(*) as calls, sum(cost_nanos)::bigint as cost from calls where id = any ($1::uuid[]) group by outcome order by outcome`,
        [[open.id, ...calls.map(({ facts }) => facts.id)]],
      );
      expect(rows).toEqual([
        { outcome: 'ok', calls: 5, cost: 5_000 },
        { outcome: 'unknown', calls: 1, cost: null },
      ]);
    }));
});
