/** The activity of the workflow `videoOperation`: one look at a video, with heartbeats while the vendor is asked. */
import { cancellationSignal, heartbeat } from '@temporalio/activity';
import type { Activities, VideoLook } from '../workflows/contract.ts';

export interface VideoRooms {
  /** Asks the vendor about the video of this call and settles what it says. */
  readonly lookAtVideo: (callId: string, signal: AbortSignal) => Promise<VideoLook>;
}

/** A third of the workflow's heartbeat timeout. */
const heartbeatMs = 4_000;

export function createVideoActivities({ lookAtVideo }: VideoRooms): Pick<Activities, 'pollVideo'> {
  return {
    async pollVideo({ call_id: callId }) {
      const beating = setInterval(() => heartbeat(), heartbeatMs);
      try {
        const look = await lookAtVideo(callId, cancellationSignal());
        // Member by member: what else may be returned is none of Temporal's business.
        return look.kind === 'wait' ? { kind: 'wait', waitMs: Math.ceil(look.waitMs) } : { kind: look.kind };
      } finally {
        clearInterval(beating);
      }
    },
  };
}
