/**
 * One run per batch: learns and consolidates each group independently, and retries it with growing delays until it is settled.
 *
 * The progress and the next retry of a group are in its row, so a run that is reset, restarted or duplicated does only the remaining work. The
 * delays are timers of this run, where operators see them; a signal cuts them short. A batch with parked groups ends as a failed run.
 */
import {
  ApplicationFailure,
  condition,
  continueAsNew,
  defineSignal,
  patched,
  proxyActivities,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import { createBatchStatus, type GroupStep } from './batch-status.ts';
import { type Activities, type BatchSummary, type LearningBatchInput, type PendingGroup, replaySignal, wakeSignal } from './contract.ts';
import { formatClockTime, note } from './notes.ts';
import { minWaitMs, recoveringActivity, timeAfter } from './poll-until.ts';

const shortOptions = { ...recoveringActivity, startToCloseTimeout: '1 minute' } as const;
const { openBatch } = proxyActivities<Activities>({ ...shortOptions, summary: note('openBatch') });
const { finishBatch } = proxyActivities<Activities>({ ...shortOptions, summary: note('finishBatch') });
/** A call to the memory model takes five minutes at most; a vendor's error is a result with a delay. */
const stepOptions = { ...recoveringActivity, startToCloseTimeout: '7 minutes' } as const;
const steps = proxyActivities<Pick<Activities, GroupStep>>(stepOptions);

/** Groups whose step runs at the same time. Groups that wait for a retry do not count. */
const maxConcurrentGroups = 3;

/** `gone`: the batch was deleted. Counts are absent in histories of older versions. */
export type BatchResult = { readonly outcome: 'done' | 'gone' } & Partial<BatchSummary>;

export async function learningBatch(input: LearningBatchInput): Promise<BatchResult> {
  const status = createBatchStatus(input.batch_id);
  let signals = 0;
  let running = 0;
  const wake = (): void => {
    signals += 1;
  };
  setHandler(defineSignal(wakeSignal), wake, { description: note('wakeSignal') });
  const wakeForReplay = (): void => {
    if (patched(replaySignal)) wake(); // Workers of older versions ignored the signal.
  };
  setHandler(defineSignal(replaySignal), wakeForReplay, { description: note('replaySignal') });
  const shouldContinueAsNew = (): boolean => workflowInfo().continueAsNewSuggested;
  const waitUnlessSignalled = async (signalsSeen: number, waitMs: number): Promise<void> => {
    const summary = note('nextTry', formatClockTime(timeAfter(waitMs)));
    await condition(() => signals !== signalsSeen || shouldContinueAsNew(), waitMs, { summary });
  };

  /** Repeats a step until it is settled or the run should continue as new. */
  const runStep = async (step: GroupStep, { position, attempts = 0 }: PendingGroup): Promise<void> => {
    for (let tries = attempts; !shouldContinueAsNew(); ) {
      // One change may wake several groups, so each checks again.
      while (running >= maxConcurrentGroups) await condition(() => running < maxConcurrentGroups);
      running += 1;
      const signalsSeen = signals;
      const summary = status.runs(step, position, tries + 1);
      const result = await steps[step].executeWithOptions({ ...stepOptions, summary }, [{ ...input, position }]).finally(() => {
        running -= 1;
      });
      if (result.kind === 'settled') return;
      tries = result.attempts ?? tries + 1; // Histories of older versions lack it.
      status.waits(step, position, result);
      await waitUnlessSignalled(signalsSeen, Math.max(minWaitMs, result.waitMs));
    }
  };
  const processGroup = async (group: PendingGroup): Promise<void> => {
    const signalsSeen = signals;
    if (group.waitMs > 0) await waitUnlessSignalled(signalsSeen, group.waitMs);
    await runStep('learnGroup', group);
    await runStep('consolidateGroup', { ...group, attempts: 0 });
    status.settled(group.position);
  };

  for (;;) {
    const signalsSeen = signals;
    const { groups, total } = await openBatch(input);
    status.opened(groups.length, total);
    await Promise.all(groups.map(processGroup));
    if (shouldContinueAsNew()) await continueAsNew<typeof learningBatch>(input);
    const end = await finishBatch(input);
    // A replay during the last step has sent a signal: check for pending groups again.
    if (!end.finished || signals !== signalsSeen) continue;
    const { batch } = end;
    if (batch && batch.parked > 0) {
      // Recorded before a reset to the last point: only a batch activity of this run replays the batch.
      if (end.runId !== workflowInfo().runId) continue;
      const message = status.parked(batch);
      throw ApplicationFailure.nonRetryable(message, 'LearningGroupParked');
    }
    const outcome = batch === null ? 'gone' : 'done';
    status.ended(outcome);
    return { outcome, ...batch };
  }
}
