/** The activity of the workflow `videoOperation`, with heartbeats during the request to the vendor. */
import { cancellationSignal } from '@temporalio/activity';
import type { Activities, VideoPollResult } from '../workflows/contract.ts';
import { withHeartbeats } from './heartbeats.ts';

export interface VideoActivityDeps {
  /** Polls the vendor for the video of this call, and settles it when it has ended. */
  readonly pollVideo: (callId: string, signal: AbortSignal) => Promise<VideoPollResult>;
}

export function createVideoActivities({ pollVideo }: VideoActivityDeps): Pick<Activities, 'pollVideo'> {
  return {
    pollVideo: ({ call_id: callId }) =>
      withHeartbeats(async () => {
        const result = await pollVideo(callId, cancellationSignal());
        if (result.kind === 'gone') return { kind: 'gone' };
        if (result.kind === 'wait') return { kind: 'wait', waitMs: Math.ceil(result.waitMs), unreachable: result.unreachable };
        return { kind: 'settled', outcome: result.outcome, code: result.code };
      }),
  };
}
