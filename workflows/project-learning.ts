/**
 * Starts learning batches when a project has enough waiting messages. Each project has one run of this workflow, and
 * only one normal batch at a time.
 *
 * The run doesn't count messages itself. Its activity checks the tables and starts a batch if one is due. Then the run
 * waits for a signal, or until the oldest message has waited long enough. Because of this, it doesn't matter if a
 * signal arrives twice or the run is reset. After a reset, old `replay` signals are delivered again, so they only
 * replay failed batches, and not those that an operator has stopped.
 */
import { condition, continueAsNew, defineSignal, patched, proxyActivities, setHandler, workflowInfo } from '@temporalio/workflow';
import { type Activities, type LearningCheckResult, type ProjectLearningInput, replaySignal } from './contract.ts';
import { formatClockTime, note } from './notes.ts';
import { minWaitMs, timeAfter } from './poll-until.ts';
import { createRetries, createWakeCounter, recovering, retryTurnedAway } from './retries.ts';
import { createRunStatus, projectSlug } from './run-status.ts';

const options = { startToCloseTimeout: '1 minute', heartbeatTimeout: '12 seconds', retry: retryTurnedAway } as const;
const { lookAtLearning } = proxyActivities<Activities>({ ...options, summary: note('checkLearning') });
const { replayBatches } = proxyActivities<Activities>({ ...options, summary: note('replayBatches') });

/** The run continues as new after this many checks, long before its history reaches Temporal's limit. */
const maxChecksPerRun = 200;

export async function projectLearning(input: ProjectLearningInput): Promise<{ readonly outcome: 'gone' }> {
  const show = createRunStatus({ state: 'running' });
  let replays = 0;
  const { wake, count: countSignals } = createWakeCounter();
  const requestReplay = (): void => {
    // Older versions ignored this signal, so it must not wake the workflow when their histories are replayed.
    if (!patched(replaySignal)) return;
    replays += 1;
    wake();
  };
  setHandler(defineSignal(replaySignal), requestReplay, { description: note('replayProjectSignal') });
  const retry = createRetries(show, () => continueAsNew<typeof projectLearning>(input), countSignals);

  for (let checks = 1; ; checks += 1) {
    const signalsSeen = countSignals();
    const replayed = replays > 0 ? await replayNow() : [];
    const result = await retry(() => lookAtLearning(input), recovering);
    if (result.kind === 'gone') {
      show({ state: 'done', outcome: 'gone' }, [note('projectGone'), note('nextNothing')]);
      return { outcome: 'gone' };
    }
    const isSignalled = (): boolean => countSignals() !== signalsSeen;
    const nextAt = result.kind === 'wait' ? timeAfter(result.waitMs) : null;
    show({ state: 'waiting', ...(nextAt && { next_at: nextAt.toISOString() }) }, [...replayed, ...describeCheck(result, nextAt)]);
    if (result.kind === 'wait' && nextAt) {
      await condition(isSignalled, Math.max(minWaitMs, result.waitMs), { summary: note('nextCheck', formatClockTime(nextAt)) });
    } else await condition(isSignalled);
    // It's safe to continue as new after a wake-up signal, because the next run starts with a check. But the next run
    // wouldn't know about a replay, so we have to handle that first.
    if (replays === 0 && (checks >= maxChecksPerRun || workflowInfo().continueAsNewSuggested))
      await continueAsNew<typeof projectLearning>(input);
  }

  async function replayNow(): Promise<string[]> {
    replays = 0;
    const { batches } = await retry(() => replayBatches(input), recovering);
    return [note('replayed', batches)];
  }
}

function describeCheck(result: Exclude<LearningCheckResult, { kind: 'gone' }>, nextAt: Date | null): string[] {
  const { messages, batchOf, batch, failed = 0, failing = 0, stopped = 0, blocked = 0 } = result;
  const slug = projectSlug();
  const next = nextAt ? formatClockTime(nextAt) : '';
  const attention: string[] = [];
  if (failed > 0) attention.push(note('batchesFailed', failed), note('nextReplayProject'), note('replayFailed', slug));
  if (failing > 0) attention.push(note('batchesFailing', failing), note('nextFailingProject'), note('listFailing', slug));
  if (blocked > 0) attention.push(note('batchesBlocked', blocked), note('nextBlocked'), note('listWaiting', slug));
  if (stopped > 0) attention.push(note('batchesStopped', stopped), note('nextReplayStopped'), note('replayStopped', slug));
  // Put problems first. If there are any, leave out the usual advice, which says that there's nothing to do.
  const withNext = (fact: string, advice: string): string[] => (attention.length > 0 ? [...attention, fact] : [fact, advice]);
  if (result.kind === 'running') return withNext(batch ? note('learningRunsBatch', batch) : note('learningRuns'), note('nextByItself'));
  if (messages === undefined || batchOf === undefined)
    return [...attention, result.kind === 'wait' ? note('learningWaits', next) : note('learningUnknown')];
  if (result.kind === 'wait') return withNext(note('messagesWait', messages, batchOf, next), note('nextLearning', batchOf, next));
  if (result.memoryOff) return [note('memoryOff', messages), note('nextMemoryOff', slug), ...attention];
  return withNext(note('learningIdle'), note('nextSignal'));
}
