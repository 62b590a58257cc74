/**
 * One run per erasure of a subject. The erasing transaction has deleted what is stored and set the fence; here is waited until every process
 * keeps to it, runs that concern the subject are deleted from Temporal, and what is left is counted: nothing.
 */
import { continueAsNew, proxyActivities, sleep, workflowInfo } from '@temporalio/workflow';
import type { Activities, SubjectErasureInput } from './contract.ts';

/** The database and Temporal recover: no last attempt. Something that is left stays visible as an activity that fails. */
const retry = { initialInterval: '1 second', backoffCoefficient: 2, maximumInterval: '10 minutes' };
const { lookAtErasure, purgeErasedRuns, finishErasure } = proxyActivities<Activities>({
  startToCloseTimeout: '10 minutes',
  heartbeatTimeout: '12 seconds',
  retry,
});

/** Below this a wait is rounding, not waiting; it keeps a run from spinning. */
const minWaitMs = 1_000;

export async function subjectErasure(input: SubjectErasureInput): Promise<void> {
  for (;;) {
    const status = await lookAtErasure(input);
    if (status.kind === 'gone' || status.kind === 'done') return;
    if (status.kind === 'clear') break;
    await sleep(Math.max(minWaitMs, status.waitMs));
    if (workflowInfo().continueAsNewSuggested) await continueAsNew<typeof subjectErasure>(input);
  }
  while ((await purgeErasedRuns(input)).kind === 'more') {
    if (workflowInfo().continueAsNewSuggested) await continueAsNew<typeof subjectErasure>(input);
  }
  await finishErasure(input);
}
