/** Connects erasure to the modules that store data of subjects: this process's listener, the workflow's activities and the routes. */
import type { ErasureActivityDeps } from '../../activities/erasures.ts';
import type { Database } from '../db/database.ts';
import type { ErasureReports } from '../http/routes/provision.ts';
import type { Durable } from '../jobs/durable.ts';
import type { Drain } from '../journal/drain.ts';
import { listLiveProcesses } from '../journal/heartbeat.ts';
import type { Journal } from '../journal/journal.ts';
import { deleteQuarantined } from '../journal/quarantine.ts';
import type { Recovery } from '../journal/recover.ts';
import { createErasureListener, type ErasureListener } from '../memory/erasure/erasure-listener.ts';
import { findErasure, listErasures } from '../memory/erasure/erasure-report.ts';
import { createErasureSteps } from '../memory/erasure/erasure-steps.ts';
import type { Logger } from '../observability/logger.ts';
import type { ResponseCache } from '../pipeline/cache/response-cache.ts';

export interface ErasureDeps {
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
  readonly listener: ErasureListener;
  readonly activities: ErasureActivityDeps;
  readonly routes: ErasureReports;
}

export function createErasures(deps: ErasureDeps): Erasures {
  const { database, dataDir, journal, drain, recovery, responseCache, deleteRuns, logger } = deps;
  return {
    listener: createErasureListener({
      database,
      process: journal.id,
      purgeCache: responseCache.invalidateSubject,
      redactInFlight: journal.redactSubject,
      async flushJournal(tombstones) {
        // Journals of dead processes first: their records are older than any tombstone.
        await recovery.recover();
        const isClear = await drain.drainAndDelete();
        // After draining, which may have quarantined a record.
        for (const [projectId, ofProject] of Map.groupBy(tombstones, (tombstone) => tombstone.projectId)) {
          await deleteQuarantined(dataDir, projectId, new Set(ofProject.map(({ sha256 }) => sha256.toString('hex'))));
        }
        return isClear;
      },
      logger,
    }),
    activities: createErasureSteps({ database, listLive: async () => (await listLiveProcesses(database)).map(({ id }) => id), deleteRuns }),
    routes: {
      listErasures: (projectId, limit) => listErasures(database, projectId, limit),
      findErasure: (projectId, id) => findErasure(database, projectId, id),
    },
  };
}
