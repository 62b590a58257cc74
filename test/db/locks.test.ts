import { expect, test } from '@jest/globals';
import type { Queries } from '../../src/db/database.ts';
import {
  lockConversations,
  lockCounterCreation,
  lockGlobal,
  lockLearning,
  lockMemories,
  lockProject,
  tryLockGlobal,
} from '../../src/db/locks.ts';
import { describeDatabases } from './databases.ts';

const first = '01890000-0000-7000-8000-000000000001';
const second = '01890000-0000-7000-8000-000000000002';

interface HeldLock {
  readonly key: string;
  readonly mode: string;
}

/** Returns the advisory locks of the transaction, sorted by key. */
async function listHeld(tx: Queries): Promise<HeldLock[]> {
  return tx.query<HeldLock>(
    `select ((classid::bigint << 32) | objid::bigint)::text as key, mode
       from pg_locks where locktype = 'advisory' and pid = pg_backend_pid() and granted order by 1, 2`,
  );
}

async function hash(tx: Queries, text: string, seed: number): Promise<string> {
  const [row] = await tx.query<{ key: string }>('select hashtextextended($1::text, $2::bigint)::text as key', [text, seed]);
  return row?.key ?? '';
}

const byKey = (a: HeldLock, b: HeldLock): number => (a.key < b.key ? -1 : 1);

describeDatabases('advisory locks', (database) => {
  test('advisory locks use the same keys as earlier versions', async () => {
    await database().transaction(async (tx) => {
      await lockProject(tx, [second, first], 'shared');
      await lockCounterCreation(tx, first, 'exclusive');
      await lockConversations(tx, [first]);
      await lockLearning(tx, first);
      await lockMemories(tx, first);
      const expected: HeldLock[] = [
        { key: await hash(tx, first, 0), mode: 'ShareLock' },
        { key: await hash(tx, second, 0), mode: 'ShareLock' },
        { key: await hash(tx, first, 1), mode: 'ExclusiveLock' },
        { key: await hash(tx, `conversations ${first}`, 0), mode: 'ExclusiveLock' },
        { key: await hash(tx, `learning ${first}`, 0), mode: 'ExclusiveLock' },
        { key: await hash(tx, `learned ${first}`, 0), mode: 'ExclusiveLock' },
      ];
      expect((await listHeld(tx)).toSorted(byKey)).toEqual(expected.toSorted(byKey));
    });
  });

  test('can try to take an advisory lock without waiting', async () => {
    await database().transaction(async (tx) => {
      expect(await tryLockGlobal(tx, 'migrate')).toBe(true);
      await lockGlobal(tx, 'prices');
      await lockGlobal(tx, 'import');
      await lockGlobal(tx, 'reprice');
      await lockGlobal(tx, 'usage');
      await lockGlobal(tx, 'usageFill');
      const numbers = ['7263001', '7263002', '7263003', '7263004', '7263005', '7263006'];
      expect(await listHeld(tx)).toEqual(numbers.map((key) => ({ key, mode: 'ExclusiveLock' })));
    });
  });

  test('holds an advisory lock until its transaction ends', async () => {
    if (database().kind === 'embedded') return; // Its single session runs one transaction after the other.
    const otherBlocks = (work: (tx: Queries) => Promise<unknown>): Promise<boolean> =>
      database().transaction(async (tx) => {
        await tx.query(`set local lock_timeout = '100ms'`);
        return work(tx).then(
          () => false,
          () => true,
        );
      });
    await database().transaction(async (tx) => {
      await lockProject(tx, first, 'exclusive');
      await lockGlobal(tx, 'migrate');
      expect(await otherBlocks((other) => lockProject(other, [first, second], 'shared'))).toBe(true);
      expect(await otherBlocks((other) => lockConversations(other, first))).toBe(false);
      expect(await database().transaction((other) => tryLockGlobal(other, 'migrate'))).toBe(false);
    });
    expect(await otherBlocks((other) => lockProject(other, [first, second], 'shared'))).toBe(false);
  });
});
