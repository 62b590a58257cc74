/**
 * Shows what a run is doing: in the current details in Temporal's UI, in the `status` query, and in the `GatewayState`
 * search attribute.
 *
 * We must not change the commands in recorded histories. Updating a search attribute is a command, unlike details and
 * queries. So we only update it in runs that were started with the attribute, and whose first task was executed by a
 * version that knows it.
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
 * `cancelled` means that an operator has cancelled the run. A run that's terminated can't execute any more code, so it
 * keeps its last state.
 */
export type RunState = 'waiting' | 'running' | 'retrying' | 'parked' | 'done' | 'failed' | 'cancelled';

/** The result of the `status` query. Besides the state, it only contains counts, codes, and times in RFC 3339. */
export interface RunStatus {
  readonly state: RunState;
  readonly [fact: string]: string | number | null;
}

/** Updates the status that the run shows. The `details` have to be notes (`notes.ts`). */
export type ShowStatus = (status: RunStatus, details: readonly string[]) => void;

/**
 * Creates the status of a run at the beginning of its workflow. `afterCancel` tells the operator what to do after a
 * cancellation.
 */
export function createRunStatus(initial: RunStatus, details: readonly string[] = [], afterCancel = note('nextRestart')): ShowStatus {
  let status = initial;
  setCurrentDetails(toMarkdown(details));
  let shownState = workflowInfo().typedSearchAttributes.get(searchAttributes.state);
  // During a rolling deployment, the first tasks of this run may have been executed by an older version. Its history
  // has no updates of the attribute, so we don't update it in such a run.
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

/** Returns the slug of the run's project. Empty if an older version started the run without this search attribute. */
export function projectSlug(): string {
  return workflowInfo().typedSearchAttributes.get(searchAttributes.projectSlug) ?? '';
}

export function toAdvice(code: string): string {
  if (code === 'memory_off') return note('nextMemoryOff', projectSlug());
  if (code === 'no_route') return note('nextRoute');
  return note(code.startsWith('upstream') || code === 'bad_upstream_response' || code === 'unusable_answer' ? 'nextModel' : 'nextLog');
}
