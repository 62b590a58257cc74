/**
 * One run per batch: each group of it is learned and consolidated by itself, and tried again with growing waits for as long as it takes.
 *
 * How far a group is, and when it is to be tried again, is in its row. So a run that is reset, started anew or doubled does what is left to be
 * done and nothing twice. The waits are timers of this run, where an operator sees them; a signal cuts them short.
 */
import { condition, continueAsNew, defineSignal, proxyActivities, setHandler, workflowInfo } from '@temporalio/workflow';
import { type Activities, type LearningBatchInput, type LearningGroupInput, type LearningStep, lookSignal } from './contract.ts';

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
const mostAtOnce = 3;
const shortestWaitMs = 1_000;

export async function learningBatch(input: LearningBatchInput): Promise<void> {
  let signals = 0;
  let working = 0;
  setHandler(defineSignal(lookSignal), () => {
    signals += 1;
  });
  const mustRenew = (): boolean => workflowInfo().continueAsNewSuggested;

  /** Until the step is settled, or the run must make place for the next. */
  const settle = async (step: (group: LearningGroupInput) => Promise<LearningStep>, group: LearningGroupInput): Promise<void> => {
    while (!mustRenew()) {
      // Several may be let in at the same moment, so each looks again.
      while (working >= mostAtOnce) await condition(() => working < mostAtOnce);
      working += 1;
      const seen = signals;
      const result = await step(group).finally(() => {
        working -= 1;
      });
      if (result.kind === 'settled') return;
      await condition(() => signals !== seen || mustRenew(), Math.max(shortestWaitMs, result.waitMs));
    }
  };
  const workOn = async (position: number, waitMs: number): Promise<void> => {
    const seen = signals;
    if (waitMs > 0) await condition(() => signals !== seen || mustRenew(), waitMs);
    await settle(learnGroup, { ...input, position });
    await settle(consolidateGroup, { ...input, position });
  };

  for (;;) {
    const seen = signals;
    const { groups } = await openBatch(input);
    await Promise.all(groups.map(({ position, waitMs }) => workOn(position, waitMs)));
    if (mustRenew()) await continueAsNew<typeof learningBatch>(input);
    // Whoever replayed a group in between has signalled, and finds it open.
    if ((await finishBatch(input)).finished && signals === seen) return;
  }
}
