/**
 * Connects erasures to the modules that store data of subjects: a listener that clears the caches of this process, the
 * activities of the erasure workflow, and the API's routes.
 */
import type { ErasureReports } from '../http/routes/provision/report-routes.ts';
import { deleteQuarantined } from '../journal/quarantine.ts';
import { createErasureListener } from '../memory/erasure/erasure-listener.ts';
import { findErasure, listErasures } from '../memory/erasure/erasure-report.ts';
import { createErasureSteps } from '../memory/erasure/erasure-steps.ts';
import { markFilesDeleted } from '../memory/erasure/tombstones.ts';
import type { ResponseCache } from '../pipeline/cache/response-cache.ts';
import type { Durable } from '../temporal/durable.ts';
import type { AppBase } from './base.ts';
import type { CallRecording } from './call-recording.ts';

interface ErasureDeps extends Pick<AppBase, 'database' | 'dataDir' | 'logger'> {
  readonly callRecording: CallRecording;
  readonly responseCache: ResponseCache;
  readonly deleteRuns: Durable['deleteRuns'];
}

export type Erasures = ReturnType<typeof createErasures>;

export function createErasures(deps: ErasureDeps) {
  const { database, dataDir, callRecording, responseCache, deleteRuns, logger } = deps;
  const { journal, drain, recovery, leases } = callRecording;
  return {
    listener: createErasureListener({
      database,
      process: journal.id,
      purgeCache: responseCache.invalidateSubject,
      redactInFlight: journal.redactSubject,
      async drainJournals(tombstones) {
        // Start with the journals of dead processes, because they're older than the erasure and can still contain data
        // of the subject.
        await recovery.recover();
        const isClear = await drain.drainAndDelete();
        // Search the quarantine last, because the previous steps may have moved records there.
        for (const [projectId, ofProject] of Map.groupBy(tombstones, (tombstone) => tombstone.projectId)) {
          const subjects = new Set(ofProject.map(({ sha256 }) => sha256.toString('hex')));
          if ((await deleteQuarantined(dataDir, projectId, subjects)) > 0) await markFilesDeleted(database, ofProject);
        }
        return isClear;
      },
      logger,
    }),
    activities: createErasureSteps({ database, listLive: leases.listLiveProcesses, deleteRuns }),
    routes: {
      listErasures: (projectId, limit) => listErasures(database, projectId, limit),
      findErasure: (projectId, id) => findErasure(database, projectId, id),
    } satisfies ErasureReports,
  };
}
