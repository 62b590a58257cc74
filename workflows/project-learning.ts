/**
 * One run per project: starts learning batches for waiting messages, one normal batch at a time.
 *
 * The run holds no counts. Its activity checks the tables and starts a batch when one is due; the run then waits for a signal, or until the
 * oldest message has waited long enough. So duplicate signals and reset runs are harmless.
 */
import { condition, continueAsNew, defineSignal, proxyActivities, setHandler, workflowInfo } from '@temporalio/workflow';
import { type Activities, type ProjectLearningInput, wakeSignal } from './contract.ts';
import { minWaitMs, recoveringActivity } from './poll-until.ts';

const { lookAtLearning } = proxyActivities<Activities>({ ...recoveringActivity, startToCloseTimeout: '1 minute' });

/** Keeps the history of a run far below Temporal's limit. */
const maxChecksPerRun = 200;

export async function projectLearning(input: ProjectLearningInput): Promise<void> {
  let signals = 0;
  setHandler(defineSignal(wakeSignal), () => {
    signals += 1;
  });
  for (let checks = 1; ; checks += 1) {
    const signalsSeen = signals;
    const result = await lookAtLearning(input);
    if (result.kind === 'gone') return;
    const isSignalled = (): boolean => signals !== signalsSeen;
    if (result.kind === 'wait') await condition(isSignalled, Math.max(minWaitMs, result.waitMs));
    else await condition(isSignalled);
    // A signal during the switch is not lost: the next run begins with a check.
    if (checks >= maxChecksPerRun || workflowInfo().continueAsNewSuggested) await continueAsNew<typeof projectLearning>(input);
  }
}
