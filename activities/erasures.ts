/** Activities of the workflow `subjectErasure`, with heartbeats. */
import { cancellationSignal } from '@temporalio/activity';
import type { Activities, ErasureStatus, PurgeProgress } from '../workflows/contract.ts';
import { withHeartbeats } from './heartbeats.ts';
import { toPollResult } from './poll-result.ts';

export interface ErasureActivityDeps {
  readonly checkProcesses: (erasureId: string) => Promise<ErasureStatus>;
  /** Deletes runs for a minute at most. */
  readonly purgeRuns: (erasureId: string, signal: AbortSignal) => Promise<PurgeProgress>;
  /** Throws when data of the subject remains. */
  readonly finish: (erasureId: string) => Promise<void>;
}

type ErasureActivities = Pick<Activities, 'lookAtErasure' | 'purgeErasedRuns' | 'finishErasure'>;

export function createErasureActivities({ checkProcesses, purgeRuns, finish }: ErasureActivityDeps): ErasureActivities {
  return {
    lookAtErasure: ({ erasure_id: id }) => withHeartbeats(async () => toPollResult(await checkProcesses(id))),
    purgeErasedRuns: ({ erasure_id: id }) => withHeartbeats(async () => ({ kind: (await purgeRuns(id, cancellationSignal())).kind })),
    finishErasure: ({ erasure_id: id }) => withHeartbeats(() => finish(id)),
  };
}
