/**
 * `/provision/leases`: what processes hold of ceilings, and how to write off what one held whose journal nobody can reach (decisions 6). A
 * journal that can be reached gives its leases back by itself, within a minute of its process's death.
 */
import type { Request, Response } from 'express';
import type { LeaseStore } from '../../ceilings/lease-store.ts';
import { gatewayError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import { formatTime } from '../../core/time.ts';
import { sendJson } from '../error-handler.ts';

export interface LeaseHandlerDeps {
  readonly leases: Pick<LeaseStore, 'list'>;
  /** Gives up what a process held; returns of how many counters, null when it was heard of within the last minute. */
  readonly revokeLeases: (process: string) => Promise<number | null>;
  /** Ids of the processes that were heard of within the last minute. */
  readonly listLiveProcesses: () => Promise<readonly string[]>;
}

export function createLeaseHandlers({ leases, listLiveProcesses, revokeLeases }: LeaseHandlerDeps) {
  return {
    async list(_request: Request, response: Response): Promise<void> {
      const [rows, live] = await Promise.all([leases.list(), listLiveProcesses()]);
      const data = rows.map(({ process, counters, oldestWindow }) => ({
        process,
        alive: live.includes(process),
        counters,
        oldest_window: formatTime(oldestWindow.getTime()),
      }));
      sendJson(response, 200, { object: 'list', data });
    },
    async release(request: Request, response: Response): Promise<void> {
      const { process = '' } = request.params;
      if (typeof process !== 'string' || !isUuid(process)) throw gatewayError('bad_request', { message: 'process: must be a UUID' });
      const released = await revokeLeases(process);
      // It would go on admitting from what has been given to others.
      if (released === null) {
        throw gatewayError('conflict', { message: 'the process was heard of within the last minute: what it holds is not written off' });
      }
      if (released === 0) throw gatewayError('not_found', { message: 'the process holds no lease' });
      sendJson(response, 200, { process, released });
    },
  };
}
