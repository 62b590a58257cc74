/**
 * One run per video: polls the vendor until the video is done or failed and its cost is settled, even if no client asks for it again.
 *
 * The activity polls, settles and returns how long to wait. An unreachable vendor is a reason to wait, not a failure.
 */
import { continueAsNew, proxyActivities } from '@temporalio/workflow';
import type { Activities, VideoEnd, VideoOperationInput } from './contract.ts';
import { formatClockTime, note } from './notes.ts';
import { pollUntil, recoveringActivity } from './poll-until.ts';
import { createRunStatus } from './run-status.ts';

const options = { ...recoveringActivity, startToCloseTimeout: '2 minutes' } as const;
const { pollVideo } = proxyActivities<Activities>(options);

export interface VideoOperationResult {
  /** `settled` where a history of an older version does not say more. */
  readonly outcome: VideoEnd['outcome'] | 'gone' | 'settled';
  /** The vendor's class of a failure. */
  readonly code: string | null;
  readonly polls: number;
}

export async function videoOperation(input: VideoOperationInput): Promise<VideoOperationResult> {
  const show = createRunStatus({ state: 'running', polls: 0 });
  let polls = 0;
  const end = await pollUntil(
    (count) => {
      polls = count;
      return pollVideo.executeWithOptions({ ...options, summary: note('pollVideo', count) }, [input]);
    },
    ({ unreachable = false }, nextAt) => {
      const next = formatClockTime(nextAt);
      const details = note(unreachable ? 'videoUnreachable' : 'videoRuns', polls, next);
      show({ state: unreachable ? 'retrying' : 'running', polls, next_at: nextAt.toISOString() }, [details]);
      return note('nextPoll', next);
    },
    () => continueAsNew<typeof videoOperation>(input),
  );
  const { outcome, code = null }: Partial<VideoEnd> = end.kind === 'settled' ? end : {};
  const result: VideoOperationResult = { outcome: outcome ?? end.kind, code, polls };
  if (outcome === 'vendor_failed') show({ state: 'failed', ...result }, [note('videoFailed', code ?? 'FAILED')]);
  else if (outcome === 'unknown') show({ state: 'failed', ...result }, [note('videoUnknown')]);
  else show({ state: 'done', ...result }, [note('ended', result.outcome)]);
  return result;
}
