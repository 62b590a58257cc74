/**
 * Runs one learning batch, i.e. learns and consolidates each of its groups. The groups are independent of each other,
 * and each one is retried with growing delays until it's settled.
 *
 * A group's progress and the time of its next retry are stored in its row. So if a run is reset, restarted or
 * duplicated, it only does the work that's left. The delays are timers of this run, which means that operators can see
 * them and a signal can end them early. The run fails if an operator stops the batch, or if an older version has parked
 * one of its groups.
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
import {
  type Activities,
  type BatchSummary,
  callUnderWay,
  type GroupStepResult,
  type LearningBatchInput,
  type PendingGroup,
  replaySignal,
} from './contract.ts';
import { note } from './notes.ts';
import { minWaitMs } from './poll-until.ts';
import { createRetries, createWakeCounter, recovering, retryTurnedAway, toDelayMs, toFailureCode } from './retries.ts';

const shortOptions = { startToCloseTimeout: '1 minute', heartbeatTimeout: '12 seconds', retry: retryTurnedAway } as const;
const { openBatch, finishBatch } = proxyActivities<Activities>({ ...shortOptions, summary: note('openBatch') });
/**
 * A call to the memory model takes five minutes at most. If the vendor fails, the activity itself doesn't fail but
 * returns a delay.
 */
const stepOptions = { ...shortOptions, startToCloseTimeout: '7 minutes' } as const;
const steps = proxyActivities<Pick<Activities, GroupStep>>(stepOptions);

type Settled = Extract<GroupStepResult, { kind: 'settled' }>;

/** Limits how many groups are processed at the same time. Groups that wait for a retry don't count. */
const maxConcurrentGroups = 3;

/** The result of the workflow. `gone` means that the batch was deleted. Older versions didn't return the counts. */
export type BatchResult = { readonly outcome: 'done' | 'gone' } & Partial<BatchSummary>;

export async function learningBatch(input: LearningBatchInput): Promise<BatchResult> {
  const status = createBatchStatus(input.batch_id);
  let running = 0;
  const { wake, count: countSignals } = createWakeCounter();
  const wakeForReplay = (): void => {
    // Older versions ignored this signal. When we replay one of their histories, the workflow has to keep sleeping at
    // this point as it originally did, because the replay would fail otherwise.
    if (patched(replaySignal)) wake();
  };
  setHandler(defineSignal(replaySignal), wakeForReplay, { description: note('replaySignal') });
  const shouldContinueAsNew = (): boolean => workflowInfo().continueAsNewSuggested;
  const retry = createRetries(status.show, () => continueAsNew<typeof learningBatch>(input), countSignals);
  const waitUnlessSignalled = async (signalsSeen: number, waitMs: number, summary: string): Promise<void> => {
    await condition(() => countSignals() !== signalsSeen || shouldContinueAsNew(), waitMs, { summary });
  };

  /** Repeats a step until it's settled, or until it's time to continue as new. */
  const runStep = async (step: GroupStep, { position, attempts = 0 }: PendingGroup, skips?: 'parked' | 'done'): Promise<Settled> => {
    let failures = 0;
    for (let tries = attempts; !shouldContinueAsNew(); ) {
      // All waiting groups wake up when a group finishes, but only some of them can start. So check the condition
      // again.
      while (running >= maxConcurrentGroups) await condition(() => running < maxConcurrentGroups);
      running += 1;
      const signalsSeen = countSignals();
      const shown = status.runs(step, position, tries + 1);
      const summary = skips ? status.skips(position, skips) : shown;
      let result: GroupStepResult;
      try {
        result = await steps[step].executeWithOptions({ ...stepOptions, summary }, [{ ...input, position }]).finally(() => {
          running -= 1;
        });
      } catch (error) {
        failures += 1;
        const code = toFailureCode(error);
        result = { kind: 'wait', waitMs: toDelayMs(failures, recovering), attempts: tries + 1, code, blocked: false };
      }
      if (result.kind === 'settled') return result;
      const isTried = !result.blocked && result.code !== callUnderWay;
      // The database counts the attempts of both steps together, so we count those of the second step ourselves. We do
      // the same if an older version returned no count.
      tries = (step === 'learnGroup' ? result.attempts : undefined) ?? (isTried ? tries + 1 : tries);
      const summaryOfWait = status.waits(step, position, { ...result, attempts: tries });
      await waitUnlessSignalled(signalsSeen, Math.max(minWaitMs, result.waitMs), summaryOfWait);
    }
    return { kind: 'settled' };
  };
  const processGroup = async (group: PendingGroup): Promise<void> => {
    const { position, waitMs } = group;
    const signalsSeen = countSignals();
    if (waitMs > 0) await waitUnlessSignalled(signalsSeen, waitMs, status.waitsAtStart(group));
    const learned = await runStep('learnGroup', group);
    const skips = learned.outcome === 'parked' || learned.outcome === 'done' ? learned.outcome : undefined;
    const end = await runStep('consolidateGroup', { ...group, attempts: 0 }, skips);
    status.settled(position, learned.outcome === 'parked' || end.outcome === 'parked');
  };

  for (;;) {
    const signalsSeen = countSignals();
    const { groups, total } = await retry(() => openBatch(input), recovering);
    status.opened(groups, total);
    await Promise.all(groups.map(processGroup));
    if (shouldContinueAsNew()) await continueAsNew<typeof learningBatch>(input);
    const options = { ...shortOptions, summary: status.closes() };
    const end = await retry(() => finishBatch.executeWithOptions(options, [input]), recovering);
    // If a signal arrived during the last step, somebody may have replayed the batch, so check again for pending
    // groups.
    if (!end.finished || countSignals() !== signalsSeen) continue;
    const { batch } = end;
    if (batch && batch.parked > 0) {
      // This result is from before a reset, so we got it from the old run's history. Somebody who resets a run wants a
      // replay, so repeat the loop to execute the activity again.
      if (end.runId !== workflowInfo().runId) continue;
      const [message, type] = end.stopped ? [status.stopped(), 'LearningBatchStopped'] : [status.parked(batch), 'LearningGroupParked'];
      throw ApplicationFailure.nonRetryable(message, type);
    }
    status.ended(batch);
    return { outcome: batch === null ? 'gone' : 'done', ...batch };
  }
}
