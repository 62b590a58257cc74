/**
 * Started daily by a schedule: deletes data past its retention. The activity defines the steps and returns the next one, so that a new step
 * does not change this workflow.
 */
import { ActivityFailure, ApplicationFailure, continueAsNew, proxyActivities, workflowInfo } from '@temporalio/workflow';
import type { Activities, CleanupInput } from './contract.ts';
import { type NoteName, note, templates } from './notes.ts';
import { createRunStatus } from './run-status.ts';

const options = {
  // Building an index over millions of rows takes long.
  startToCloseTimeout: '6 hours',
  heartbeatTimeout: '30 seconds',
  // About four hours; then the run fails and the next day's starts over, so that a failing step does not block the others for longer.
  retry: { initialInterval: '1 minute', backoffCoefficient: 2, maximumInterval: '1 hour', maximumAttempts: 10 },
} as const;
const { cleanUp } = proxyActivities<Activities>(options);

export interface CleanupResult {
  readonly outcome: 'done';
  /** Rows that each step deleted or changed. */
  readonly rows: Readonly<Record<string, number>>;
}

/** With which the activity begins when the input names none; a test holds it to the list of steps. */
export const firstStep = 'conversations';

export async function dailyCleanup(input: CleanupInput): Promise<CleanupResult> {
  const show = createRunStatus({ state: 'running' });
  const rows: Record<string, number> = {};
  for (let next: string | null = input.step; ; ) {
    const step = next ?? firstStep;
    const done = Object.entries(rows).map(([name, count]) => note('cleanupRows', name, count));
    show({ state: 'running', step }, [describeStep(step), ...done]);
    const progress = await cleanUp
      .executeWithOptions({ ...options, summary: describeStep(step) }, [{ step: next }])
      .catch((error: unknown) => {
        show({ state: 'failed', step }, [describeStep(step), ...done]);
        throw toStepFailure(step, error);
      });
    const ran = progress.step ?? step; // Histories of older versions lack it.
    rows[ran] = (rows[ran] ?? 0) + progress.rows;
    next = progress.next;
    if (next === null) break;
    if (workflowInfo().continueAsNewSuggested) await continueAsNew<typeof dailyCleanup>({ step: next });
  }
  show(
    { state: 'done' },
    Object.entries(rows).map(([name, count]) => note('cleanupRows', name, count)),
  );
  return { outcome: 'done', rows };
}

function describeStep(step: string): string {
  const name = `cleanup:${step}`;
  return Object.hasOwn(templates, name) ? note(name as Extract<NoteName, `cleanup:${string}`>) : note('cleanupStep', step);
}

/** Names the step; a cancellation stays one. */
function toStepFailure(step: string, error: unknown): unknown {
  if (!(error instanceof ActivityFailure && error.cause instanceof ApplicationFailure)) return error;
  return ApplicationFailure.nonRetryable(note('cleanupFailed', step, error.cause.type ?? ''), 'CleanupStepFailed');
}
