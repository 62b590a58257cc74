/** The activity of the workflow `videoOperation`: one look at a video, with heartbeats while the vendor is asked. */
import { cancellationSignal } from '@temporalio/activity';
import type { Activities, VideoPollResult } from '../workflows/contract.ts';
import { withHeartbeats } from './heartbeats.ts';

export interface VideoActivityDeps {
  /** Asks the vendor about the video of this call and settles what it says. */
  readonly pollVideo: (callId: string, signal: AbortSignal) => Promise<VideoPollResult>;
}

export function createVideoActivities({ pollVideo }: VideoActivityDeps): Pick<Activities, 'pollVideo'> {
  return {
    pollVideo: ({ call_id: callId }) =>
      withHeartbeats(async () => {
        const result = await pollVideo(callId, cancellationSignal());
        // Member by member: what else may be returned is none of Temporal's business.
        return result.kind === 'wait' ? { kind: 'wait', waitMs: Math.ceil(result.waitMs) } : { kind: result.kind };
      }),
  };
}
