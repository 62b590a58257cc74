/**
 * One run per project: sees to it that waiting messages are learned from, one normal batch at a time.
 *
 * It holds no counts. The activity looks at the tables and begins a batch when one is due; this run waits for a signal, or for the moment at
 * which the oldest message has waited long enough. So a signal that comes twice, or a run that is reset, changes nothing.
 */
import { condition, continueAsNew, defineSignal, proxyActivities, setHandler, workflowInfo } from '@temporalio/workflow';
import { type Activities, lookSignal, type ProjectLearningInput } from './contract.ts';

const { lookAtLearning } = proxyActivities<Activities>({
  startToCloseTimeout: '1 minute',
  heartbeatTimeout: '12 seconds',
  // Only the database can fail here, and that recovers: no last attempt.
  retry: { initialInterval: '1 second', backoffCoefficient: 2, maximumInterval: '10 minutes' },
});

/** Looks of a run: far below the limit of a history (lessons 46). */
const mostLooks = 200;
/** Below this a wait is rounding, not waiting; it keeps a run from spinning. */
const shortestWaitMs = 1_000;

export async function projectLearning(input: ProjectLearningInput): Promise<void> {
  let signals = 0;
  setHandler(defineSignal(lookSignal), () => {
    signals += 1;
  });
  for (let looks = 1; ; looks += 1) {
    const seen = signals;
    const look = await lookAtLearning(input);
    if (look.kind === 'gone') return;
    const isTold = (): boolean => signals !== seen;
    if (look.kind === 'wait') await condition(isTold, Math.max(shortestWaitMs, look.waitMs));
    else await condition(isTold);
    // Signals are counted and nothing more, so none is lost: the next run begins with a look.
    if (looks >= mostLooks || workflowInfo().continueAsNewSuggested) await continueAsNew<typeof projectLearning>(input);
  }
}
