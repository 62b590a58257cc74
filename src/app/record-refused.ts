/** Records the calls that a handler refuses. */
import type { Call, MediaCall } from '../core/call.ts';
import type { RecordRefusal } from '../usage/refusals/recorder.ts';

/**
 * Wraps a handler of calls so that refused calls are recorded. It covers the calls of every caller, including those
 * that the gateway makes itself. What a route refuses before there is a call, it records itself.
 */
export function recordRefused<Handled extends Call | MediaCall, Rest extends readonly unknown[], Result>(
  recordRefusal: RecordRefusal,
  handle: (call: Handled, ...rest: Rest) => Promise<Result>,
): (call: Handled, ...rest: Rest) => Promise<Result> {
  return (call, ...rest) =>
    handle(call, ...rest).catch((error: unknown) => {
      const { id, startedAt, route, caller, source, requestedModel } = call;
      recordRefusal(error, { id, startedAt, route, caller, source, requestedModel: requestedModel === '' ? null : requestedModel });
      throw error;
    });
}
