/** Records spans for workflow runs and activities. Their parent is the outbox row that started or woke the run. */
import type { Headers } from '@temporalio/common';
import type { RunEnd } from '../../../workflows/contract.ts';
import { attributes, spanNames } from '../../observability/trace-names.ts';
import { continueTrace, recordSpan } from '../../observability/tracing.ts';
import { readTraceHeader } from '../payloads/trace-header.ts';

interface Run {
  readonly workflowId: string;
  readonly runId: string;
}

interface ActivityContext {
  readonly info: { readonly activityType: string; readonly attempt: number; readonly workflowExecution?: Run | undefined };
}

export function traceActivities({ info }: ActivityContext) {
  const { activityType, attempt, workflowExecution } = info;
  return {
    inbound: {
      execute<Input extends { readonly headers: Headers }>(input: Input, next: (input: Input) => Promise<unknown>): Promise<unknown> {
        const run = workflowExecution && {
          [attributes.workflowId]: workflowExecution.workflowId,
          [attributes.runId]: workflowExecution.runId,
        };
        const options = { name: `${spanNames.activity} ${activityType}`, attributes: { ...run, [attributes.tries]: attempt } };
        return continueTrace(readTraceHeader(input.headers), options, () => next(input));
      },
    },
  };
}

interface RunInfo extends Run {
  readonly workflowType: string;
  readonly startTime: Date;
}

/** Records a span when a traced run ends. `workflows/tracing.ts` reports each of these runs once. */
export const traceSink = {
  tracing: {
    runEnded: {
      fn({ workflowType, workflowId, runId, startTime }: RunInfo, { trace, outcome, endedAt }: RunEnd): void {
        recordSpan(trace, {
          name: `${spanNames.workflow} ${workflowType}`,
          startTime: startTime.getTime(),
          endTime: endedAt,
          attributes: { [attributes.workflowId]: workflowId, [attributes.runId]: runId, [attributes.outcome]: outcome },
        });
      },
    },
  },
};
