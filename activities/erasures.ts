/** Activities of the workflow `subjectErasure`: memory's own functions, with heartbeats. */
import { cancellationSignal } from '@temporalio/activity';
import type { Activities, ErasureStatus, PurgeProgress } from '../workflows/contract.ts';
import { withHeartbeats } from './heartbeats.ts';

export interface ErasureActivityDeps {
  readonly checkProcesses: (erasureId: string) => Promise<ErasureStatus>;
  /** Some of the runs, for a minute at most. */
  readonly purgeRuns: (erasureId: string, signal: AbortSignal) => Promise<PurgeProgress>;
  /** Throws when something of the subject is left. */
  readonly finish: (erasureId: string) => Promise<void>;
}

type ErasureActivities = Pick<Activities, 'lookAtErasure' | 'purgeErasedRuns' | 'finishErasure'>;

/** Results are made member by member: what else memory may return is none of Temporal's business. */
export function createErasureActivities({ checkProcesses, purgeRuns, finish }: ErasureActivityDeps): ErasureActivities {
  return {
    lookAtErasure: ({ erasure_id: id }) =>
      withHeartbeats(async () => {
        const status = await checkProcesses(id);
        return status.kind === 'wait' ? { kind: 'wait', waitMs: Math.ceil(status.waitMs) } : { kind: status.kind };
      }),
    purgeErasedRuns: ({ erasure_id: id }) => withHeartbeats(async () => ({ kind: (await purgeRuns(id, cancellationSignal())).kind })),
    finishErasure: ({ erasure_id: id }) => withHeartbeats(() => finish(id)),
  };
}
