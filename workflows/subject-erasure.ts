/**
 * Completes the erasure of a subject, with one run per erasure. By the time it starts, the erasure's transaction has
 * deleted the stored data and written the tombstone. The run waits until every process applies the tombstone. Then it
 * deletes Temporal runs that contain data about the subject, and verifies that nothing is left.
 */
import { continueAsNew, proxyActivities } from '@temporalio/workflow';
import type { Activities, SubjectErasureInput } from './contract.ts';
import { formatClockTime, note } from './notes.ts';
import { pollUntil, repeatWhileMore } from './poll-until.ts';
import { createRetries, recovering, retryTurnedAway } from './retries.ts';
import { createRunStatus } from './run-status.ts';

const options = { startToCloseTimeout: '10 minutes', heartbeatTimeout: '12 seconds', retry: retryTurnedAway } as const;
const { lookAtErasure, purgeErasedRuns, finishErasure } = proxyActivities<Activities>(options);

export async function subjectErasure(input: SubjectErasureInput): Promise<{ readonly outcome: 'erased' | 'done' | 'gone' }> {
  const continueRun = () => continueAsNew<typeof subjectErasure>(input);
  const show = createRunStatus({ state: 'running' });
  const retry = createRetries(show, continueRun);
  const status = await pollUntil(
    (count) => retry(() => lookAtErasure.executeWithOptions({ ...options, summary: note('checkProcesses', count) }, [input]), recovering),
    ({ ready, total, missing = [] }, nextAt, count) => {
      const next = formatClockTime(nextAt);
      const status = { state: 'waiting', checks: count, next_at: nextAt.toISOString() } as const;
      if (ready === undefined || total === undefined) {
        show(status, [note('erasureWaits', next)]);
        return note('nextCheck', next);
      }
      const processes = missing.map((id) => note('erasureProcess', id));
      show({ ...status, ready, processes: total }, [note('erasureProcesses', ready, total, next), ...processes, note('nextProcesses')]);
      return note('processesMissing', ready, total, next);
    },
    continueRun,
  );
  if (status.kind !== 'clear') {
    show({ state: 'done', outcome: status.kind }, [note(status.kind === 'done' ? 'erasedBefore' : 'erasureGone'), note('nextNothing')]);
    return { outcome: status.kind };
  }
  const purges = [note('erasurePurges')];
  show({ state: 'running' }, [...purges, note('nextByItself')]);
  await repeatWhileMore(
    (count) =>
      retry(() => purgeErasedRuns.executeWithOptions({ ...options, summary: note('purgeRuns', count) }, [input]), recovering, {
        lines: purges,
      }),
    continueRun,
  );
  const verifies = { lines: [note('erasureVerifies')], advice: note('nextResidue') };
  show({ state: 'running' }, [...verifies.lines, note('nextByItself')]);
  await retry(() => finishErasure.executeWithOptions({ ...options, summary: note('finishErasure') }, [input]), recovering, verifies);
  show({ state: 'done', outcome: 'erased' }, [note('erased'), note('nextNothing')]);
  return { outcome: 'erased' };
}
