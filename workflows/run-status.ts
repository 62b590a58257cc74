/**
 * Shows what a run is doing in the current details of Temporal's UI, the query `status`, and the search attribute
 * `GatewayState`.
 *
 * This must not change recorded commands. Details and queries aren't commands, but updating a search attribute is one.
 * So we only update it in runs that were started with the attribute and first executed by a version that knows it.
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
 * `cancelled` means that an operator cancelled the run. A terminated run keeps its last state, because it doesn't
 * execute any more code.
 */
export type RunState = 'waiting' | 'running' | 'retrying' | 'parked' | 'done' | 'failed' | 'cancelled';

/** The result of the query `status`. It contains the state, and counts, codes and RFC 3339 times. */
export interface RunStatus {
  readonly state: RunState;
  readonly [fact: string]: string | number | null;
}

/** Sets the status. `details` are notes. */
export type ShowStatus = (status: RunStatus, details: readonly string[]) => void;

/** Call this first in a workflow. `afterCancel` tells the operator what to do after cancelling the run. */
export function createRunStatus(initial: RunStatus, details: readonly string[] = [], afterCancel = note('nextRestart')): ShowStatus {
  let status = initial;
  setCurrentDetails(toMarkdown(details));
  let shownState = workflowInfo().typedSearchAttributes.get(searchAttributes.state);
  // During a rolling deployment, a worker of an older version may have executed the first tasks.
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

/** Returns an empty string in runs of versions that didn't have the search attribute. */
export function projectSlug(): string {
  return workflowInfo().typedSearchAttributes.get(searchAttributes.projectSlug) ?? '';
}

/** Returns what the operator should do about an error code. */
export function toAdvice(code: string): string {
  if (code === 'memory_off') return note('nextMemoryOff', projectSlug());
  if (code === 'no_route') return note('nextRoute');
  return note(code.startsWith('upstream') || code === 'bad_upstream_response' || code === 'unusable_answer' ? 'nextModel' : 'nextLog');
}
