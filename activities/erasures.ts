/** Activities of the workflow `subjectErasure`: memory's own functions, with heartbeats. */
import { cancellationSignal } from '@temporalio/activity';
import type { Activities, ErasureLook, PurgeLook } from '../workflows/contract.ts';
import { withHeartbeats } from './heartbeats.ts';

export interface ErasureRooms {
  readonly look: (erasureId: string) => Promise<ErasureLook>;
  /** Some of the runs, for a minute at most. */
  readonly purgeRuns: (erasureId: string, signal: AbortSignal) => Promise<PurgeLook>;
  /** Throws when something of the subject is left. */
  readonly finish: (erasureId: string) => Promise<void>;
}

type ErasureActivities = Pick<Activities, 'lookAtErasure' | 'purgeErasedRuns' | 'finishErasure'>;

/** Results are made member by member: what else memory may return is none of Temporal's business. */
export function createErasureActivities({ look, purgeRuns, finish }: ErasureRooms): ErasureActivities {
  return {
    lookAtErasure: ({ erasure_id: id }) =>
      withHeartbeats(async () => {
        const seen = await look(id);
        return seen.kind === 'wait' ? { kind: 'wait', waitMs: Math.ceil(seen.waitMs) } : { kind: seen.kind };
      }),
    purgeErasedRuns: ({ erasure_id: id }) => withHeartbeats(async () => ({ kind: (await purgeRuns(id, cancellationSignal())).kind })),
    finishErasure: ({ erasure_id: id }) => withHeartbeats(() => finish(id)),
  };
}
