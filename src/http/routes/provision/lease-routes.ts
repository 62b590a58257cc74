/**
 * `/provision/leases` lists the ceiling leases of processes, and can release the leases of a dead process whose journal
 * is lost. If the journal is still there, another process recovers it and releases the leases within a minute
 * (docs/architecture/ceilings.md).
 */
import type { Router } from 'express';
import type { LeaseStore } from '../../../ceilings/lease-store.ts';
import { gatewayError } from '../../../core/errors.ts';
import { formatTime } from '../../../core/time.ts';
import { param, type Responders } from './responders.ts';

export interface LeaseRouteDeps {
  readonly leases: Pick<LeaseStore, 'list'>;
  /**
   * Releases the leases of a process and returns how many there were, or null if it sent a heartbeat within the last
   * minute.
   */
  readonly revokeLeases: (process: string) => Promise<number | null>;
  /** Returns the ids of the processes that sent a heartbeat within the last minute. */
  readonly listLiveProcesses: () => Promise<readonly string[]>;
}

export function addLeaseRoutes(
  router: Router,
  { read, change }: Responders,
  { leases, listLiveProcesses, revokeLeases }: LeaseRouteDeps,
): void {
  router.get(
    '/leases',
    read(async () => {
      const [rows, live] = await Promise.all([leases.list(), listLiveProcesses()]);
      const data = rows.map(({ process, counters, oldestWindow }) => ({
        process,
        alive: live.includes(process),
        counters,
        oldest_window: formatTime(oldestWindow),
      }));
      return { object: 'list', data };
    }),
  );
  router.delete(
    '/leases/:process',
    change('leases.release', async (request, change) => {
      const process = param(request, 'process');
      const released = await revokeLeases(process);
      // A live process would go on admitting calls from a quota that others can now use as well.
      if (released === null) {
        throw gatewayError('conflict', {
          message: 'the process is alive (it sent a heartbeat within the last 60 seconds), so its leases cannot be released',
        });
      }
      if (released === 0) throw gatewayError('not_found', { message: 'the process does not hold any leases' });
      change.note({ released });
      return { process, released };
    }),
  );
}
