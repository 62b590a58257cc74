/**
 * One run per video: polls the vendor until the video is done or failed and its cost is settled, even if no client asks for it again.
 *
 * The activity polls, settles and returns how long to wait. An unreachable vendor is a reason to wait, not a failure.
 */
import { continueAsNew, proxyActivities } from '@temporalio/workflow';
import type { Activities, VideoOperationInput } from './contract.ts';
import { pollUntil, recoveringActivity } from './poll-until.ts';

const { pollVideo } = proxyActivities<Activities>({ ...recoveringActivity, startToCloseTimeout: '2 minutes' });

export async function videoOperation(input: VideoOperationInput): Promise<void> {
  await pollUntil(
    () => pollVideo(input),
    () => continueAsNew<typeof videoOperation>(input),
  );
}
