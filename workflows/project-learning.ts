/**
 * One run per project: sees to it that waiting messages are learned from, one normal batch at a time.
 *
 * It holds no counts. The activity looks at the tables and begins a batch when one is due; this run waits for a signal, or for the moment at
 * which the oldest message has waited long enough. So a signal that comes twice, or a run that is reset, changes nothing.
 */
import { condition, continueAsNew, defineSignal, proxyActivities, setHandler, workflowInfo } from '@temporalio/workflow';
import { type Activities, type ProjectLearningInput, wakeSignal } from './contract.ts';

const { lookAtLearning } = proxyActivities<Activities>({
  startToCloseTimeout: '1 minute',
  heartbeatTimeout: '12 seconds',
  // Only the database can fail here, and that recovers: no last attempt.
  retry: { initialInterval: '1 second', backoffCoefficient: 2, maximumInterval: '10 minutes' },
});

/** Looks of a run: far below the limit of a history (lessons 46). */
const maxChecksPerRun = 200;
/** Below this a wait is rounding, not waiting; it keeps a run from spinning. */
const minWaitMs = 1_000;

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
    // Signals are counted and nothing more, so none is lost: the next run begins with a look.
    if (checks >= maxChecksPerRun || workflowInfo().continueAsNewSuggested) await continueAsNew<typeof projectLearning>(input);
  }
}
