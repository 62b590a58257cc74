/**
 * One run per erasure of a subject. The erasing transaction has deleted the stored data and written the tombstone. This workflow waits until
 * every process applies the tombstone, deletes Temporal runs that concern the subject, and verifies that nothing remains.
 */
import { continueAsNew, proxyActivities } from '@temporalio/workflow';
import type { Activities, SubjectErasureInput } from './contract.ts';
import { formatClockTime, note } from './notes.ts';
import { pollUntil, recoveringActivity, repeatWhileMore } from './poll-until.ts';
import { createRunStatus } from './run-status.ts';

/** Remaining data stays visible as a failing activity. */
const options = { ...recoveringActivity, startToCloseTimeout: '10 minutes' } as const;
const { lookAtErasure, purgeErasedRuns, finishErasure } = proxyActivities<Activities>(options);

export async function subjectErasure(input: SubjectErasureInput): Promise<{ readonly outcome: 'erased' | 'done' | 'gone' }> {
  const continueRun = () => continueAsNew<typeof subjectErasure>(input);
  const show = createRunStatus({ state: 'running' });
  const status = await pollUntil(
    (count) => lookAtErasure.executeWithOptions({ ...options, summary: note('checkProcesses', count) }, [input]),
    (_, nextAt, count) => {
      const next = formatClockTime(nextAt);
      show({ state: 'waiting', checks: count, next_at: nextAt.toISOString() }, [note('erasureWaits', count, next)]);
      return note('nextCheck', next);
    },
    continueRun,
  );
  if (status.kind !== 'clear') {
    show({ state: 'done', outcome: status.kind }, [note('ended', status.kind)]);
    return { outcome: status.kind };
  }
  show({ state: 'running' }, [note('erasurePurges')]);
  await repeatWhileMore(
    (count) => purgeErasedRuns.executeWithOptions({ ...options, summary: note('purgeRuns', count) }, [input]),
    continueRun,
  );
  show({ state: 'running' }, [note('erasureVerifies')]);
  await finishErasure.executeWithOptions({ ...options, summary: note('finishErasure') }, [input]);
  show({ state: 'done', outcome: 'erased' }, [note('ended', 'erased')]);
  return { outcome: 'erased' };
}
