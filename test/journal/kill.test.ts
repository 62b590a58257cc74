/**
 * Kills a real process with kill -9 at every failpoint of the journal, the drain and the recovery. After that, each
 * call has to be stored exactly once.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, cp, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Database } from '../../src/db/database.ts';
import { migrate } from '../../src/db/migrate.ts';
import { liveFailpoints, recoveryFailpoints } from '../../src/journal/failpoints.ts';
import { encodeFrame } from '../../src/journal/frame.ts';
import { createRecovery } from '../../src/journal/recover.ts';
import { storeCalls } from '../../src/usage/store-calls.ts';
import { eachCallIsStoredOnce } from '../simulation/invariants.ts';
import { isExhaustive } from '../support/exhaustive.ts';
import { gatewayFlags } from '../support/gateway-process.ts';
import { createTestDatabase, describePostgres, openTestDatabase } from '../support/postgres.ts';
import { unusedPort } from '../support/unused-port.ts';
import { keepingLogger, withFolder } from './calls.ts';

const crashTimeoutMs = 200_000;
const program = new URL('crash-process.ts', import.meta.url).pathname;

interface Death {
  /** Ids that the journal has confirmed, in order. */
  readonly opened: readonly string[];
  readonly settled: readonly string[];
}

interface RunOptions {
  readonly killAfter?: number;
  readonly url?: string;
}

describePostgres('kill -9', () => {
  let database: Database;
  let url = '';
  let takeBack = async (): Promise<void> => {};
  let template: { readonly dataDir: string; readonly death: Death };
  beforeAll(async () => {
    const lent = await createTestDatabase();
    url = lent.url;
    database = openTestDatabase(url, 2);
    await migrate(database);
    const dataDir = await mkdtemp(join(tmpdir(), 'gateway-journal-'));
    takeBack = async () => {
      await database.close();
      await lent.drop();
      await rm(dataDir, { recursive: true });
    };
    // This process never reaches its database, so all of its calls are still in the journal.
    const death = await runProcess('serve', dataDir, 'after write', 60, { url: `postgres://127.0.0.1:${await unusedPort()}/none` });
    expect(death.signal).toBe('SIGKILL');
    template = { dataDir, death };
  });
  afterAll(() => takeBack());

  /** Runs the program until it kills itself, or kills it after `killAfter` lines of output. */
  const runProcess = async (task: string, dataDir: string, point: string, passes: number, options: RunOptions = {}) => {
    const { killAfter = Number.POSITIVE_INFINITY, url: databaseUrl = url } = options;
    const child = spawn(process.execPath, [...gatewayFlags, program, task, dataDir, databaseUrl, point, String(passes)], {
      stdio: ['ignore', 'pipe', 'inherit'],
      // A process that misses its failpoint would fill the disk.
      timeout: crashTimeoutMs,
    });
    let said = '';
    let lines = 0;
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      said += text;
      lines += text.split('\n').length - 1;
      if (lines >= killAfter) child.kill('SIGKILL');
    });
    const [code, signal] = await once(child, 'close');
    const idsAfter = (word: string): string[] => [...said.matchAll(new RegExp(`^${word} (\\S+)$`, 'gm'))].map(([, id = '']) => id);
    expect(idsAfter('damaged')).toEqual([]);
    return { code, signal, opened: idsAfter('opened'), settled: idsAfter('settled') };
  };

  /** Runs `work` with a copy of the journal of a process that was killed, and then checks that no call was lost. */
  const withDeath = (work: (dataDir: string) => Promise<void>): Promise<void> =>
    withFolder(async (dataDir) => {
      await cp(template.dataDir, dataDir, { recursive: true });
      await work(dataDir);
      await recoverHere(dataDir);
      await expectExactlyOnce(template.death);
    });

  const recoverHere = async (dataDir: string): Promise<void> => {
    const recovery = createRecovery({
      dataDir,
      ownId: 'none',
      database,
      async store(tx, calls) {
        for (const { metadata, content } of calls)
          if (content) expect(content.request.toString()).toMatch(new RegExp(`^(?:the history )+${metadata.id}$`));
        await storeCalls(tx, calls);
      },
      logger: keepingLogger(),
      estimateCost: () => 7,
    });
    await recovery.recover();
    expect(recovery.counts()).toMatchObject({ quarantined: 0, rejected: 0 });
    await recovery.stop();
    expect(await readdir(join(dataDir, 'journal'))).toEqual([]);
  };

  const expectExactlyOnce = async ({ opened, settled }: Death): Promise<void> => {
    const rows = await database.query<{ id: string; outcome: string; cost: number; attempts: number }>(
      `select calls.id, outcome, calls.cost_nanos as cost,
              (select count(*) from attempts where call_id = calls.id and attempts.cost_nanos = calls.cost_nanos) as attempts
         from calls`,
    );
    await database.query('truncate calls, attempts');
    const byId = new Map(rows.map((row) => [row.id, row]));
    eachCallIsStoredOnce(
      [...opened, ...settled],
      rows.map(({ id }) => id),
    );
    for (const id of settled) expect(byId.get(id)).toEqual({ id, outcome: 'ok', cost: 1_000, attempts: 1 });
    // The process may also have written other calls to the journal, but died before it could print them.
    for (const row of rows) {
      expect([row.outcome, row.cost, row.attempts]).toEqual(row.outcome === 'ok' ? ['ok', 1_000, 1] : ['unknown', 7, 1]);
    }
  };

  /** The numbers of passes after which the process dies, by failpoint: at the first one, during the work, and late. */
  const passesOf: Readonly<Record<string, readonly number[]>> = {
    'before write': [0, ...(isExhaustive ? [40] : []), 300],
    'after write': [...(isExhaustive ? [0] : []), 40],
    'before read': [3],
    'before store': [3],
    'before commit': [3],
    'after store': [3],
    'before discard': [1],
    'after discard': [1],
  };

  test('tests every failpoint of the journal and the drain', () => {
    expect(Object.keys(passesOf)).toEqual([...liveFailpoints]);
  });

  test.each(Object.entries(passesOf).flatMap(([point, all]) => all.map((passes) => [point, passes] as const)))(
    'keeps each call exactly once if the process is killed at %s after %i passes',
    (point, passes) =>
      withFolder(async (dataDir) => {
        const death = await runProcess('serve', dataDir, point, passes);
        expect(death.signal).toBe('SIGKILL');
        await recoverHere(dataDir);
        await expectExactlyOnce(death);
      }),
  );

  test.each(isExhaustive ? [10, 700] : [700])('keeps each call exactly once if the process is killed after %i confirmations', (killAfter) =>
    withFolder(async (dataDir) => {
      const death = await runProcess('serve', dataDir, 'never', 0, { killAfter });
      expect(death.signal).toBe('SIGKILL');
      expect(death.opened.length).toBeGreaterThan(1);
      await recoverHere(dataDir);
      await expectExactlyOnce(death);
    }),
  );

  test.each(recoveryFailpoints)('completes a journal recovery that was killed at %s', (point) =>
    withDeath(async (dataDir) => {
      expect((await runProcess('recover', dataDir, point, 0)).signal).toBe('SIGKILL');
    }),
  );

  test('keeps every confirmed call if the last journal record is truncated', () =>
    withDeath(async (dataDir) => {
      const [folder = ''] = await readdir(join(dataDir, 'journal'));
      const names = await readdir(join(dataDir, 'journal', folder));
      const last = join(
        dataDir,
        'journal',
        folder,
        names
          .filter((name) => name.startsWith('segment'))
          .toSorted()
          .at(-1) ?? '',
      );
      const [whole = Buffer.alloc(0)] = encodeFrame(JSON.stringify({ kind: 'settled' }), null);
      await appendFile(last, whole.subarray(0, whole.length - 1));
    }));

  test('stores each call once even if two journal folders contain the same segments', () =>
    withFolder(async (dataDir) => {
      const death = await runProcess('serve', dataDir, 'before store', 0);
      const [folder = ''] = await readdir(join(dataDir, 'journal'));
      await cp(join(dataDir, 'journal', folder), join(dataDir, 'journal', `${folder.slice(0, -4)}dead`), { recursive: true });
      const recovered = await Promise.all([runProcess('recover', dataDir, 'never', 0), runProcess('recover', dataDir, 'never', 0)]);
      expect(recovered.map(({ code }) => code)).toEqual([0, 0]);
      await recoverHere(dataDir);
      await expectExactlyOnce(death);
    }));

  test('stores each call once even if two recoveries run concurrently', () =>
    withFolder(async (dataDir) => {
      const deaths = [];
      for (let round = 0; round < 2; round += 1) deaths.push(await runProcess('serve', dataDir, 'after write', 50));
      const recovered = await Promise.all([runProcess('recover', dataDir, 'never', 0), runProcess('recover', dataDir, 'never', 0)]);
      expect(recovered.map(({ code }) => code)).toEqual([0, 0]);
      await recoverHere(dataDir);
      await expectExactlyOnce({ opened: deaths.flatMap(({ opened }) => opened), settled: deaths.flatMap(({ settled }) => settled) });
    }));
});
