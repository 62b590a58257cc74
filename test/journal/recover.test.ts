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
import { describeAnyDatabase } from '../db/databases.ts';
import { until } from '../support/until.ts';
import { attemptStart, clockAt, connectionError, emptyDatabase, factsOf, keepingLogger, noon, settledCall, withFolder } from './calls.ts';

/** Simulates a process that did `work` and died: copies the files of its journal to another folder with a free lock. */
async function createDeadJournal(dataDir: string, work: (journal: Journal) => Promise<void>): Promise<string> {
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

interface RecoveryTest {
  recovery: ReturnType<typeof createRecovery>;
  database: ReturnType<typeof emptyDatabase>;
  logger: ReturnType<typeof keepingLogger>;
  stored: SettledCall[];
}

function withRecovery(
  dataDir: string,
  work: (setup: RecoveryTest) => Promise<void>,
  options: Partial<RecoveryOptions> = {},
): Promise<void> {
  const [database, logger] = [emptyDatabase(), keepingLogger()];
  const stored: SettledCall[] = [];
  const store = async (_tx: unknown, calls: readonly SettledCall[]): Promise<void> => {
    stored.push(...calls);
  };
  const recovery = createRecovery({ dataDir, ownId: 'own', database, store, logger, ...options });
  return work({ recovery, database, logger, stored }).finally(() => recovery.stop());
}

describe('recovery', () => {
  test('recovery settles an unfinished call as unknown with an estimated cost', () =>
    withFolder(async (dataDir) => {
      const trace = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
      const metadata = factsOf({ bodyBytes: 1_001, trace });
      const [ended, second] = [settledCall(), { n: 2, provider: 'anthropic', model: 'claude', startedAt: noon + 30 }];
      await createDeadJournal(dataDir, async (journal) => {
        await journal.open(ended.metadata, attemptStart);
        await journal.open(metadata, attemptStart);
        await journal.attempt(metadata.id, second);
        await journal.settle(ended);
      });
      const estimates: unknown[] = [];
      await withRecovery(
        dataDir,
        async ({ recovery, stored }) => {
          expect(await recovery.recover()).toBe(1);
          const tokens = { input: 251, cachedInput: 0, cacheWrite: 0, cacheWrite1h: 0, output: 0 };
          const none = { ...tokens, input: 0 };
          const error = { reason: 'lost', type: null, code: null, message: 'the process ended before it recorded the result' };
          const unknown = { status: null, outcome: 'unknown', waitMs: 0, firstByteMs: null, durationMs: 0, error };
          expect(stored).toEqual([
            ended,
            {
              metadata,
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
          expect(estimates).toEqual([['anthropic/claude', { tokens, units: {}, searches: 0 }]]);
          expect(await readdir(join(dataDir, 'journal'))).toEqual([]);
        },
        {
          estimateCost(model, requested) {
            estimates.push([model, requested]);
            return 42;
          },
        },
      );
    }));

  test('recovery counts an unfinished rerank call as one search', () =>
    withFolder(async (dataDir) => {
      await createDeadJournal(dataDir, (journal) => journal.open(factsOf({ route: 'rerank' }), attemptStart));
      await withRecovery(
        dataDir,
        async ({ recovery, stored }) => {
          await recovery.recover();
          expect(stored).toMatchObject([{ result: { outcome: 'unknown', costNanos: 2_000 } }]);
        },
        { estimateCost: (_model, { searches }) => searches * 2_000 },
      );
    }));

  test('recovery skips a truncated last record and stores all earlier records', () =>
    withFolder(async (dataDir) => {
      const [complete, truncated] = [settledCall(), settledCall()];
      const folder = await createDeadJournal(dataDir, async (journal) => {
        await journal.settle(complete);
        await journal.settle(truncated);
      });
      const file = join(folder, segmentName(1));
      await truncate(file, (await readFile(file)).length - 1);
      await withRecovery(dataDir, async ({ recovery, stored }) => {
        await recovery.recover();
        expect(stored).toEqual([complete]);
        expect(existsSync(join(dataDir, 'journal', 'quarantine'))).toBe(false);
      });
    }));

  test('recovery quarantines a damaged segment and loses only the calls after the damage', () =>
    withFolder(async (dataDir) => {
      const [first, later] = [settledCall(), settledCall()];
      const folder = await createDeadJournal(dataDir, async (journal) => {
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

  test("recovery doesn't touch the journal of a running process", () =>
    withFolder(async (dataDir) => {
      const journal = await createJournal({ dataDir, clock: clockAt(noon), logger: keepingLogger(), sync: false, ballastBytes: 100 });
      await journal.settle(settledCall());
      await withRecovery(dataDir, async ({ recovery, stored }) => {
        expect(await recovery.recover()).toBe(0);
        expect(stored).toEqual([]);
      });
      await journal.close();
    }));

  test('recovery waits during a database outage and then continues', () =>
    withFolder(async (dataDir) => {
      const call = settledCall();
      const folder = await createDeadJournal(dataDir, (journal) => journal.settle(call));
      await withRecovery(
        dataDir,
        async ({ recovery, database, stored }) => {
          database.fail(connectionError());
          await expect(recovery.recover()).rejects.toThrow('some journals could not be recovered');
          expect(await acquireFileLock(join(folder, 'owner.lock'))).toBeNull();
          database.fail(null);
          recovery.start();
          await until('the call is stored', () => stored.length === 1);
          await until('the folder is deleted', () => !existsSync(folder));
        },
        { intervalMs: 5 },
      );
    }));

  test("recovers the other journals if one can't be recovered", () =>
    withFolder(async (dataDir) => {
      const call = settledCall();
      const bad = join(dataDir, 'journal', '01900000-0000-7000-8000-00000000bad0');
      await mkdir(join(bad, segmentName(1)), { recursive: true });
      await createDeadJournal(dataDir, (journal) => journal.settle(call));
      await withRecovery(dataDir, async ({ recovery, stored }) => {
        await expect(recovery.recover()).rejects.toThrow('some journals could not be recovered');
        expect(stored).toEqual([call]);
      });
    }));

  test("calls onRecovered before deleting the dead process's journal folder", () =>
    withFolder(async (dataDir) => {
      const folder = await createDeadJournal(dataDir, (journal) => journal.settle(settledCall()));
      const recovered: string[] = [];
      const onRecovered = async (journalId: string): Promise<void> => {
        expect(existsSync(folder)).toBe(true);
        recovered.push(journalId);
      };
      await withRecovery(dataDir, async ({ recovery }) => void (await recovery.recover()), { onRecovered });
      expect(recovered).toEqual([folder.slice(-36)]);
    }));

  test("recovery ignores files and folders that aren't journals", () =>
    withFolder(async (dataDir) => {
      await mkdir(join(dataDir, 'journal', 'quarantine'), { recursive: true });
      await writeFile(join(dataDir, 'journal', 'notes.txt'), 'note');
      await withRecovery(dataDir, async ({ recovery }) => {
        expect(await recovery.recover()).toBe(0);
      });
      expect((await readdir(join(dataDir, 'journal'))).sort()).toEqual(['notes.txt', 'quarantine']);
    }));
});

describeAnyDatabase('recovery with real tables', (database) => {
  test('recovery stores the calls of a duplicate segment only once', () =>
    withFolder(async (dataDir) => {
      const calls = Array.from({ length: 5 }, () => settledCall());
      const open = factsOf();
      const folder = await createDeadJournal(dataDir, async (journal) => {
        for (const call of calls) await journal.open(call.metadata, attemptStart);
        for (const call of calls) await journal.settle(call);
        await journal.open(open, attemptStart);
      });
      await copyFile(join(folder, segmentName(1)), join(folder, segmentName(7)));
      const recovery = createRecovery({ dataDir, ownId: 'own', database: database(), store: storeCalls, logger: keepingLogger() });
      await recovery.recover();
      await recovery.stop();
      const rows = await database().query(
        `select outcome, count(*) as calls, sum(cost_nanos)::bigint as cost from calls where id = any ($1::uuid[]) group by outcome order by outcome`,
        [[open.id, ...calls.map(({ metadata }) => metadata.id)]],
      );
      expect(rows).toEqual([
        { outcome: 'ok', calls: 5, cost: 5_000 },
        { outcome: 'unknown', calls: 1, cost: null },
      ]);
    }));
});
