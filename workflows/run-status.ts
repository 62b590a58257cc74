/**
 * Shows what a run is doing. This is visible in the current details of Temporal's UI, in the `status` query and in the
 * `GatewayState` search attribute.
 *
 * We must not change the commands in recorded histories. Details and queries aren't commands, but updating a search
 * attribute is one. So we only update it in runs that were started with the attribute, and whose first task was
 * executed by a version that knows it.
 */
import {
  CancellationScope,
  defineQuery,
  patched,
  setCurrentDetails,
  setHandler,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import { searchAttributes } from './contract.ts';
import { note, toMarkdown } from './notes.ts';

/**
 * `cancelled` means that an operator cancelled the run. If a run is terminated, it keeps its last state, because it
 * can't execute any more code.
 */
export type RunState = 'waiting' | 'running' | 'retrying' | 'parked' | 'done' | 'failed' | 'cancelled';

/** The result of the `status` query: the state, and counts, codes and RFC 3339 times. */
export interface RunStatus {
  readonly state: RunState;
  readonly [fact: string]: string | number | null;
}

/** Shows a new status of the run. Each of the `details` has to be a note. */
export type ShowStatus = (status: RunStatus, details: readonly string[]) => void;

/** Call this at the start of a workflow. `afterCancel` tells the operator what to do after cancelling. */
export function createRunStatus(initial: RunStatus, details: readonly string[] = [], afterCancel = note('nextRestart')): ShowStatus {
  let status = initial;
  setCurrentDetails(toMarkdown(details));
  let shownState = workflowInfo().typedSearchAttributes.get(searchAttributes.state);
  // The first tasks may have been executed by a worker with an older version, because a rolling deployment replaces
  // workers one by one.
  if (shownState !== undefined && !patched('state-attribute')) shownState = undefined;
  setHandler(defineQuery('status'), () => status, { description: note('statusQuery') });
  const show: ShowStatus = (next, nextDetails) => {
    status = next;
    setCurrentDetails(toMarkdown(nextDetails));
    if (shownState === undefined || shownState === next.state) return;
    if (next.state === 'cancelled' && !patched('cancelled-state')) return;
    shownState = next.state;
    upsertSearchAttributes([{ key: searchAttributes.state, value: next.state }]);
  };
  CancellationScope.current().cancelRequested.catch(() => show({ state: 'cancelled' }, [note('cancelled'), afterCancel]));
  return show;
}

/**
 * Returns the slug of the run's project. Empty in runs that were started by a version without this search attribute.
 */
export function projectSlug(): string {
  return workflowInfo().typedSearchAttributes.get(searchAttributes.projectSlug) ?? '';
}

/** Tells the operator what to do about an error code. */
export function toAdvice(code: string): string {
  if (code === 'memory_off') return note('nextMemoryOff', projectSlug());
  if (code === 'no_route') return note('nextRoute');
  return note(code.startsWith('upstream') || code === 'bad_upstream_response' || code === 'unusable_answer' ? 'nextModel' : 'nextLog');
}
