/**
 * Interceptors that pass a run's trace context on to its activities. At first, that's the context of whatever started
 * the run. A run can last for days and have many causes, so after a signal we use the context of the signal. After a
 * continue-as-new, the next run has no context until it gets a signal.
 *
 * In runs without a context, these interceptors do nothing.
 */
import { ContinueAsNew, defaultPayloadConverter, proxySinks, type WorkflowInterceptors } from '@temporalio/workflow';
import { type RunEnd, type TraceSinks, traceHeader } from './contract.ts';

type Headers = Parameters<NonNullable<NonNullable<WorkflowInterceptors['inbound']>[number]['execute']>>[0]['headers'];

export function interceptors(): WorkflowInterceptors {
  const { tracing } = proxySinks<TraceSinks>();
  let carried: Headers = {};

  const carry = (headers: Headers): void => {
    const payload = headers[traceHeader];
    carried = payload ? { [traceHeader]: payload } : {};
  };
  const withTrace = <Input extends { readonly headers: Headers }>(input: Input): Input => ({
    ...input,
    headers: { ...input.headers, ...carried },
  });

  return {
    inbound: [
      {
        execute(input, next) {
          carry(input.headers);
          const payload = carried[traceHeader];
          if (!payload) return next(input);
          const trace: string = defaultPayloadConverter.fromPayload(payload);
          const end = (outcome: RunEnd['outcome']): void => tracing.runEnded({ trace, outcome, endedAt: Date.now() });
          return next(input).then(
            (result) => {
              end('completed');
              return result;
            },
            (error: unknown) => {
              end(error instanceof ContinueAsNew ? 'continued' : 'failed');
              throw error;
            },
          );
        },
        handleSignal(input, next) {
          carry(input.headers);
          return next(input);
        },
      },
    ],
    outbound: [
      {
        scheduleActivity: (input, next) => next(withTrace(input)),
        scheduleLocalActivity: (input, next) => next(withTrace(input)),
      },
    ],
  };
}
