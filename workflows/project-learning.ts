/**
 * One run per project: starts learning batches for waiting messages, one normal batch at a time.
 *
 * The run holds no counts. Its activity checks the tables and starts a batch when one is due; the run then waits for a signal, or until the
 * oldest message has waited long enough. So duplicate signals and reset runs are harmless. A reset delivers old signals `replay` again,
 * therefore they replay failed batches only, not those that an operator has stopped.
 */
import { condition, continueAsNew, defineSignal, patched, proxyActivities, setHandler, workflowInfo } from '@temporalio/workflow';
import { type Activities, type ProjectLearningInput, replaySignal, wakeSignal } from './contract.ts';
import { formatClockTime, note } from './notes.ts';
import { minWaitMs, recoveringActivity, timeAfter } from './poll-until.ts';
import { createRunStatus } from './run-status.ts';

const options = { ...recoveringActivity, startToCloseTimeout: '1 minute' } as const;
const { lookAtLearning } = proxyActivities<Activities>({ ...options, summary: note('checkLearning') });
const { replayBatches } = proxyActivities<Activities>({ ...options, summary: note('replayBatches') });

/** Keeps the history of a run far below Temporal's limit. */
const maxChecksPerRun = 200;

export async function projectLearning(input: ProjectLearningInput): Promise<{ readonly outcome: 'gone' }> {
  const show = createRunStatus({ state: 'running' });
  let signals = 0;
  let replays = 0;
  const wake = (): void => {
    signals += 1;
  };
  setHandler(defineSignal(wakeSignal), wake, { description: note('wakeSignal') });
  const requestReplay = (): void => {
    if (!patched(replaySignal)) return; // Workers of older versions ignored the signal.
    replays += 1;
    wake();
  };
  setHandler(defineSignal(replaySignal), requestReplay, { description: note('replayProjectSignal') });
  for (let checks = 1; ; checks += 1) {
    const signalsSeen = signals;
    const replayed = replays > 0 ? await replayNow() : [];
    const result = await lookAtLearning(input);
    if (result.kind === 'gone') {
      show({ state: 'done', outcome: 'gone' }, [note('ended', 'gone')]);
      return { outcome: 'gone' };
    }
    const isSignalled = (): boolean => signals !== signalsSeen;
    if (result.kind === 'wait') {
      const nextAt = timeAfter(result.waitMs);
      show({ state: 'waiting', next_at: nextAt.toISOString() }, [...replayed, note('learningWaits', formatClockTime(nextAt))]);
      await condition(isSignalled, Math.max(minWaitMs, result.waitMs), { summary: note('nextCheck', formatClockTime(nextAt)) });
    } else {
      show({ state: 'waiting' }, [...replayed, note(result.kind === 'running' ? 'learningRuns' : 'learningIdle')]);
      await condition(isSignalled);
    }
    // A signal during the switch is not lost: the next run begins with a check. A replay must be done by this run.
    if (replays === 0 && (checks >= maxChecksPerRun || workflowInfo().continueAsNewSuggested))
      await continueAsNew<typeof projectLearning>(input);
  }

  async function replayNow(): Promise<string[]> {
    replays = 0;
    const { batches } = await replayBatches(input);
    return [note('replayed', batches)];
  }
}
