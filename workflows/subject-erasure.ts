/**
 * One run per erasure of a subject. The erasing transaction has deleted the stored data and written the tombstone. This workflow waits until
 * every process applies the tombstone, deletes Temporal runs that concern the subject, and verifies that nothing remains.
 */
import { continueAsNew, proxyActivities } from '@temporalio/workflow';
import type { Activities, SubjectErasureInput } from './contract.ts';
import { pollUntil, recoveringActivity, repeatWhileMore } from './poll-until.ts';

/** Remaining data stays visible as a failing activity. */
const { lookAtErasure, purgeErasedRuns, finishErasure } = proxyActivities<Activities>({
  ...recoveringActivity,
  startToCloseTimeout: '10 minutes',
});

export async function subjectErasure(input: SubjectErasureInput): Promise<void> {
  const continueRun = () => continueAsNew<typeof subjectErasure>(input);
  const status = await pollUntil(() => lookAtErasure(input), continueRun);
  if (status.kind !== 'clear') return;
  await repeatWhileMore(() => purgeErasedRuns(input), continueRun);
  await finishErasure(input);
}
