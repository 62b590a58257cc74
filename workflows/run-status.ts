/**
 * What a run shows while it runs: current details in Temporal's UI, the query `status`, and the search attribute `GatewayState`.
 *
 * None of it may change recorded commands. Details and queries are no commands; an upsert of a search attribute is one, so only runs that
 * were started with the attribute and first executed by a version that knows it keep it current.
 */
import { defineQuery, patched, setCurrentDetails, setHandler, upsertSearchAttributes, workflowInfo } from '@temporalio/workflow';
import { searchAttributes } from './contract.ts';
import { note } from './notes.ts';

export type RunState = 'waiting' | 'running' | 'retrying' | 'parked' | 'done' | 'failed';

/** Result of the query `status`: the state, with counts, codes and RFC 3339 times. */
export interface RunStatus {
  readonly state: RunState;
  readonly [fact: string]: string | number | null;
}

/** Sets the status; `details` are notes, one per line. */
export type ShowStatus = (status: RunStatus, details: readonly string[]) => void;

/** Call first in a workflow. */
export function createRunStatus(initial: RunStatus, details: readonly string[] = []): ShowStatus {
  let status = initial;
  setCurrentDetails(details.join('\n'));
  let shownState = workflowInfo().typedSearchAttributes.get(searchAttributes.state);
  // During a rolling deployment, a worker of an older version may have executed the first tasks.
  if (shownState !== undefined && !patched('state-attribute')) shownState = undefined;
  setHandler(defineQuery('status'), () => status, { description: note('statusQuery') });
  return (next, nextDetails) => {
    status = next;
    setCurrentDetails(nextDetails.join('\n'));
    if (shownState === undefined || shownState === next.state) return;
    shownState = next.state;
    upsertSearchAttributes([{ key: searchAttributes.state, value: next.state }]);
  };
}
