/**
 * `/provision/leases` lists the ceiling leases of processes. It can also release the leases of a dead process whose
 * journal is lost. If the journal still exists, another process recovers it and releases the leases within a minute
 * (docs/architecture/ceilings.md).
 */
import type { LeaseStore } from '../../../ceilings/lease-store.ts';
import { gatewayError } from '../../../core/errors.ts';
import { formatTime } from '../../../core/time.ts';
import { param, type Responders } from './responders.ts';

export interface LeaseRouteDeps {
  readonly leases: Pick<LeaseStore, 'list'>;
  /**
   * Releases all leases of a process and returns their number. Returns null and does nothing if the process has sent a
   * heartbeat within the last minute.
   */
  readonly revokeLeases: (process: string) => Promise<number | null>;
  readonly listLiveProcesses: () => Promise<readonly string[]>;
}

export function addLeaseRoutes({ read, change }: Responders, { leases, listLiveProcesses, revokeLeases }: LeaseRouteDeps): void {
  read('/leases', async () => {
    const [rows, live] = await Promise.all([leases.list(), listLiveProcesses()]);
    const data = rows.map(({ process, counters, oldestWindow }) => ({
      process,
      alive: live.includes(process),
      counters,
      oldest_window: formatTime(oldestWindow),
    }));
    return { object: 'list', data };
  });
  change('delete', '/leases/:process', 'leases.release', async (request, change) => {
    const process = param(request, 'process');
    const released = await revokeLeases(process);
    // Never release the leases of a live process. It would continue to admit calls with a quota that others can lease
    // as well.
    if (released === null) {
      throw gatewayError('conflict', {
        message: 'the process is alive (it sent a heartbeat within the last 60 seconds), so its leases cannot be released',
      });
    }
    if (released === 0) throw gatewayError('not_found', { message: 'the process does not hold any leases' });
    change.note({ released });
    return { process, released };
  });
}
