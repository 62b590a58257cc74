/**
 * One run per batch: each group of it is learned and consolidated by itself, and tried again with growing waits for as long as it takes.
 *
 * How far a group is, and when it is to be tried again, is in its row. So a run that is reset, started anew or doubled does what is left to be
 * done and nothing twice. The waits are timers of this run, where an operator sees them; a signal cuts them short.
 */
import { condition, continueAsNew, defineSignal, proxyActivities, setHandler, workflowInfo } from '@temporalio/workflow';
import { type Activities, type GroupStepResult, type LearningBatchInput, type LearningGroupInput, wakeSignal } from './contract.ts';

/** Only the database can fail here, and that recovers: no last attempt. What vendors do wrong is a result, with the time to wait. */
const retry = { initialInterval: '1 second', backoffCoefficient: 2, maximumInterval: '10 minutes' };
const { openBatch, finishBatch } = proxyActivities<Activities>({ startToCloseTimeout: '1 minute', heartbeatTimeout: '12 seconds', retry });
const { learnGroup, consolidateGroup } = proxyActivities<Activities>({
  // A call to the memory model takes five minutes at most.
  startToCloseTimeout: '7 minutes',
  heartbeatTimeout: '12 seconds',
  retry,
});

/** Groups that are worked on at once; the others wait, those between two tries do not count. */
const maxConcurrentGroups = 3;
const minWaitMs = 1_000;

export async function learningBatch(input: LearningBatchInput): Promise<void> {
  let signals = 0;
  let running = 0;
  setHandler(defineSignal(wakeSignal), () => {
    signals += 1;
  });
  const shouldContinueAsNew = (): boolean => workflowInfo().continueAsNewSuggested;

  /** Until the step is settled, or the run must make place for the next. */
  const runStep = async (step: (group: LearningGroupInput) => Promise<GroupStepResult>, group: LearningGroupInput): Promise<void> => {
    while (!shouldContinueAsNew()) {
      // Several may be let in at the same moment, so each looks again.
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
    // Whoever replayed a group in between has signalled, and finds it open.
    if ((await finishBatch(input)).finished && signals === signalsSeen) return;
  }
}
