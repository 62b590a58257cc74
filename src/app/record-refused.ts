/** Records the calls that a handler refuses. */
import type { Call, MediaCall } from '../core/call.ts';
import type { RecordRefusal } from '../usage/refusals/recorder.ts';

/**
 * Wraps a call handler, so that refused calls are recorded. This includes the gateway's own calls. If a route refuses a
 * request before it becomes a call, it has to record this itself.
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
