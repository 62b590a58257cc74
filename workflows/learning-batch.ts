/**
 * One run per batch: learns and consolidates each group independently, and retries it with growing delays until it is settled.
 *
 * The progress and the next retry of a group are in its row, so a run that is reset, restarted or duplicated does only the remaining work. The
 * delays are timers of this run, where operators see them; a signal cuts them short.
 */
import { condition, continueAsNew, defineSignal, proxyActivities, setHandler, workflowInfo } from '@temporalio/workflow';
import { type Activities, type GroupStepResult, type LearningBatchInput, type LearningGroupInput, wakeSignal } from './contract.ts';
import { minWaitMs, recoveringActivity } from './poll-until.ts';

const { openBatch, finishBatch } = proxyActivities<Activities>({ ...recoveringActivity, startToCloseTimeout: '1 minute' });
/** A call to the memory model takes five minutes at most; a vendor's error is a result with a delay. */
const { learnGroup, consolidateGroup } = proxyActivities<Activities>({ ...recoveringActivity, startToCloseTimeout: '7 minutes' });

/** Groups whose step runs at the same time. Groups that wait for a retry do not count. */
const maxConcurrentGroups = 3;

export async function learningBatch(input: LearningBatchInput): Promise<void> {
  let signals = 0;
  let running = 0;
  setHandler(defineSignal(wakeSignal), () => {
    signals += 1;
  });
  const shouldContinueAsNew = (): boolean => workflowInfo().continueAsNewSuggested;

  /** Repeats a step until it is settled or the run should continue as new. */
  const runStep = async (step: (group: LearningGroupInput) => Promise<GroupStepResult>, group: LearningGroupInput): Promise<void> => {
    while (!shouldContinueAsNew()) {
      // One change may wake several groups, so each checks again.
      while (running >= maxConcurrentGroups) await condition(() => running < maxConcurrentGroups);
      running += 1;
      const signalsSeen = signals;
      const result = await step(group).finally(() => {
        running -= 1;
      });
      if (result.kind === 'settled') return;
      await condition(() => signals !== signalsSeen || shouldContinueAsNew(), Math.max(minWaitMs, result.waitMs));
    }
  };
  const processGroup = async (position: number, waitMs: number): Promise<void> => {
    const signalsSeen = signals;
    if (waitMs > 0) await condition(() => signals !== signalsSeen || shouldContinueAsNew(), waitMs);
    await runStep(learnGroup, { ...input, position });
    await runStep(consolidateGroup, { ...input, position });
  };

  for (;;) {
    const signalsSeen = signals;
    const { groups } = await openBatch(input);
    await Promise.all(groups.map(({ position, waitMs }) => processGroup(position, waitMs)));
    if (shouldContinueAsNew()) await continueAsNew<typeof learningBatch>(input);
    // A replay during the last step has sent a signal: check for pending groups again.
    if ((await finishBatch(input)).finished && signals === signalsSeen) return;
  }
}
