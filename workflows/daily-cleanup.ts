/**
 * Started once a day by a schedule: what is no longer to be kept is deleted. The activity knows the steps and says which is next, so a
 * new one changes nothing here.
 */
import { continueAsNew, proxyActivities, workflowInfo } from '@temporalio/workflow';
import type { Activities, CleanupInput } from './contract.ts';

const { cleanUp } = proxyActivities<Activities>({
  // The building of an index takes long where there are millions of rows.
  startToCloseTimeout: '6 hours',
  heartbeatTimeout: '30 seconds',
  // About four hours. Then the run fails, and tomorrow's begins anew: one step that cannot be done must not keep the others from it.
  retry: { initialInterval: '1 minute', backoffCoefficient: 2, maximumInterval: '1 hour', maximumAttempts: 10 },
});

export async function dailyCleanup(input: CleanupInput): Promise<void> {
  let { next } = await cleanUp(input);
  while (next !== null) {
    if (workflowInfo().continueAsNewSuggested) await continueAsNew<typeof dailyCleanup>({ step: next });
    ({ next } = await cleanUp({ step: next }));
  }
}
