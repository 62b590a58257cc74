/**
 * Started daily by a schedule: deletes data past its retention. The activity defines the steps and returns the next one, so that a new step
 * does not change this workflow.
 */
import { continueAsNew, proxyActivities, workflowInfo } from '@temporalio/workflow';
import type { Activities, CleanupInput } from './contract.ts';

const { cleanUp } = proxyActivities<Activities>({
  // Building an index over millions of rows takes long.
  startToCloseTimeout: '6 hours',
  heartbeatTimeout: '30 seconds',
  // About four hours; then the run fails and the next day's starts over, so that a failing step does not block the others for longer.
  retry: { initialInterval: '1 minute', backoffCoefficient: 2, maximumInterval: '1 hour', maximumAttempts: 10 },
});

export async function dailyCleanup(input: CleanupInput): Promise<void> {
  let { next } = await cleanUp(input);
  while (next !== null) {
    if (workflowInfo().continueAsNewSuggested) await continueAsNew<typeof dailyCleanup>({ step: next });
    ({ next } = await cleanUp({ step: next }));
  }
}
