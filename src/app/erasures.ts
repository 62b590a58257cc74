/** Erasure, joined of the rooms that hold something of a subject: what this process does for it, and what the workflow asks. */
import type { ErasureRooms } from '../../activities/erasures.ts';
import type { Database } from '../db/database.ts';
import type { ErasureHandlerDeps } from '../http/routes/provision-erasures.ts';
import type { Durable } from '../jobs/durable.ts';
import type { Drain } from '../journal/drain.ts';
import { listLive } from '../journal/heartbeat.ts';
import type { Journal } from '../journal/journal.ts';
import { removeQuarantined } from '../journal/quarantine.ts';
import type { Recovery } from '../journal/recover.ts';
import { createKeepErasures, type KeepErasures } from '../memory/erasure/erasure-listener.ts';
import { findErasure, listErasures } from '../memory/erasure/erasure-report.ts';
import { createFinishErasure } from '../memory/erasure/erasure-steps.ts';
import type { Logger } from '../observability/logger.ts';
import type { ResponseCache } from '../pipeline/cache/response-cache.ts';

export interface ErasureParts {
  readonly database: Database;
  readonly dataDir: string;
  readonly journal: Journal;
  readonly drain: Drain;
  readonly recovery: Recovery;
  readonly responseCache: ResponseCache;
  readonly deleteRuns: Durable['deleteRuns'];
  readonly logger: Logger;
}

export interface Erasures {
  readonly keeper: KeepErasures;
  readonly activities: ErasureRooms;
  readonly routes: ErasureHandlerDeps;
}

export function createErasures(parts: ErasureParts): Erasures {
  const { database, dataDir, journal, drain, recovery, responseCache, deleteRuns, logger } = parts;
  return {
    keeper: createKeepErasures({
      database,
      process: journal.id,
      dropCached: responseCache.dropSubject,
      forgetOpen: journal.forgetSubject,
      async clearDisk(fences) {
        // Dead processes of this machine first: what they left is older than any fence.
        await recovery.recover();
        const isClear = await drain.clear();
        // Last: draining may have put a record there.
        for (const [projectId, ofProject] of Map.groupBy(fences, (fence) => fence.projectId)) {
          await removeQuarantined(dataDir, projectId, new Set(ofProject.map(({ sha256 }) => sha256.toString('hex'))));
        }
        return isClear;
      },
      logger,
    }),
    activities: createFinishErasure({ database, listLive: async () => (await listLive(database)).map(({ id }) => id), deleteRuns }),
    routes: {
      listErasures: (projectId, limit) => listErasures(database, projectId, limit),
      findErasure: (projectId, id) => findErasure(database, projectId, id),
    },
  };
}
