/** The activity of the workflow `videoOperation`, with heartbeats during the request to the vendor. */
import { cancellationSignal } from '@temporalio/activity';
import type { Activities, VideoPollResult } from '../workflows/contract.ts';
import { withHeartbeats } from './heartbeats.ts';
import { toPollResult } from './poll-result.ts';

export interface VideoActivityDeps {
  /** Polls the vendor for the video of this call, and settles it when it has ended. */
  readonly pollVideo: (callId: string, signal: AbortSignal) => Promise<VideoPollResult>;
}

export function createVideoActivities({ pollVideo }: VideoActivityDeps): Pick<Activities, 'pollVideo'> {
  return {
    pollVideo: ({ call_id: callId }) => withHeartbeats(async () => toPollResult(await pollVideo(callId, cancellationSignal()))),
  };
}
