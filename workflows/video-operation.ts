/**
 * One run per video: polls the vendor until the video is done or failed and its cost is settled, even if no client asks for it again.
 *
 * The activity polls, settles and returns how long to wait. An unreachable vendor is a reason to wait, not a failure; only the database can
 * fail here, and it recovers.
 */
import { continueAsNew, proxyActivities } from '@temporalio/workflow';
import type { Activities, VideoOperationInput } from './contract.ts';
import { pollUntil } from './poll-until.ts';

const { pollVideo } = proxyActivities<Activities>({
  startToCloseTimeout: '2 minutes',
  heartbeatTimeout: '12 seconds',
  retry: { initialInterval: '1 second', backoffCoefficient: 2, maximumInterval: '10 minutes' },
});

export async function videoOperation(input: VideoOperationInput): Promise<void> {
  await pollUntil(
    () => pollVideo(input),
    () => continueAsNew<typeof videoOperation>(input),
  );
}
