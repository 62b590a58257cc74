/**
 * One run per video: the vendor is asked until the video is done or failed, and its cost is settled, also when nobody asks for it again.
 *
 * The activity asks and settles, and says how long to wait; a vendor that cannot be reached is a reason to wait, not a failure. What
 * fails here is the database, which recovers.
 */
import { continueAsNew, proxyActivities, sleep, workflowInfo } from '@temporalio/workflow';
import type { Activities, VideoOperationInput } from './contract.ts';

const { pollVideo } = proxyActivities<Activities>({
  startToCloseTimeout: '2 minutes',
  heartbeatTimeout: '12 seconds',
  retry: { initialInterval: '1 second', backoffCoefficient: 2, maximumInterval: '10 minutes' },
});

/** Below this a wait is rounding, not waiting; it keeps a run from spinning. */
const minWaitMs = 1_000;

export async function videoOperation(input: VideoOperationInput): Promise<void> {
  for (;;) {
    const result = await pollVideo(input);
    if (result.kind !== 'wait') return;
    await sleep(Math.max(minWaitMs, result.waitMs));
    if (workflowInfo().continueAsNewSuggested) await continueAsNew<typeof videoOperation>(input);
  }
}
