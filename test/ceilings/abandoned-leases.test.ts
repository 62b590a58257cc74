/** Tests the alert for budget that dead processes are holding back. */
import { expect, test } from '@jest/globals';
import { createAbandonedLeases } from '../../src/ceilings/abandoned-leases.ts';
import { createLeaseStore } from '../../src/ceilings/lease-store.ts';
import { newId } from '../../src/core/ids.ts';
import { describeDatabases } from '../db/databases.ts';
import { createTestLog, until } from '../support/temporal.ts';

describeDatabases('abandoned leases', (database) => {
  const lease = (process: string, windowEnd: string, amount = 5) =>
    database().query(
      `with counter as (
         insert into limit_counters (project_id, holder, holder_id, ceiling, window_kind, window_start, window_end, settled, leased)
         values (gen_random_uuid(), 'key', 'k', 'calls', 'month', now(), now() + $2::interval, 0, $3::bigint) returning id
       ) insert into limit_leases (counter_id, process, amount) select id, $1::uuid, $3::bigint from counter`,
      [process, windowEnd, amount],
    );

  test('reports abandoned leases once and names the command that releases them', async () => {
    const { logger, lines } = createTestLog();
    const [dead, alive, ended] = [newId(1), newId(2), newId(3)];
    await lease(dead, '1 day');
    await lease(dead, '2 days');
    await lease(alive, '1 day');
    await lease(ended, '-1 day');
    let checks = 0;
    const listLiveProcesses = async (): Promise<string[]> => {
      checks += 1;
      return [alive];
    };
    const abandoned = createAbandonedLeases({ database: database(), listLiveProcesses, logger, intervalMs: 5 });
    abandoned.start();
    try {
      await until('they are reported', () => lines.length > 0);
      const atAlert = checks;
      expect(abandoned.list()).toEqual([dead]);
      await until('they are checked again', () => checks > atAlert + 5);
      expect(lines).toEqual([
        {
          level: 'error',
          message: 'dead process still holds leases',
          fields: { process: dead, leases: 2, release: `gateway leases release ${dead}` },
        },
      ]);
      await createLeaseStore(database()).revokeAll(dead);
      await until('they are released', () => abandoned.list().length === 0);
    } finally {
      await abandoned.stop();
    }
  });
});
