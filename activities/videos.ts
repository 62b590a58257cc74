/** The activity of the workflow `videoOperation`: one look at a video, with heartbeats while the vendor is asked. */
import { cancellationSignal } from '@temporalio/activity';
import type { Activities, VideoLook } from '../workflows/contract.ts';
import { withHeartbeats } from './heartbeats.ts';

export interface VideoRooms {
  /** Asks the vendor about the video of this call and settles what it says. */
  readonly lookAtVideo: (callId: string, signal: AbortSignal) => Promise<VideoLook>;
}

export function createVideoActivities({ lookAtVideo }: VideoRooms): Pick<Activities, 'pollVideo'> {
  return {
    pollVideo: ({ call_id: callId }) =>
      withHeartbeats(async () => {
        const look = await lookAtVideo(callId, cancellationSignal());
        // Member by member: what else may be returned is none of Temporal's business.
        return look.kind === 'wait' ? { kind: 'wait', waitMs: Math.ceil(look.waitMs) } : { kind: look.kind };
      }),
  };
}
