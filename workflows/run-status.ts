/**
 * What a run shows while it runs: current details in Temporal's UI, the query `status`, and the search attribute `GatewayState`.
 *
 * None of it may change recorded commands. Details and queries are no commands; an upsert of a search attribute is one, so only runs that
 * were started with the attribute and first executed by a version that knows it keep it current.
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

/** `cancelled`: by an operator. A terminated run keeps its last state, since it executes no more code. */
export type RunState = 'waiting' | 'running' | 'retrying' | 'parked' | 'done' | 'failed' | 'cancelled';

/** Result of the query `status`: the state, with counts, codes and RFC 3339 times. */
export interface RunStatus {
  readonly state: RunState;
  readonly [fact: string]: string | number | null;
}

/** Sets the status; `details` are notes. */
export type ShowStatus = (status: RunStatus, details: readonly string[]) => void;

/** Call first in a workflow. `afterCancel`: what the operator does after cancelling the run. */
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

/** Empty in runs of versions before the search attribute. */
export function projectSlug(): string {
  return workflowInfo().typedSearchAttributes.get(searchAttributes.projectSlug) ?? '';
}

/** What the operator does about an error code. */
export function toAdvice(code: string): string {
  if (code === 'memory_off') return note('nextMemoryOff', projectSlug());
  if (code === 'no_route') return note('nextRoute');
  return note(code.startsWith('upstream') || code === 'bad_upstream_response' || code === 'unusable_answer' ? 'nextModel' : 'nextLog');
}
