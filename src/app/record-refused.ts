import type { Call, MediaCall } from '../core/call.ts';
import type { RecordRefusal } from '../usage/refusals/recorder.ts';

/**
 * Wraps a call handler to record the calls that it refuses, including the gateway's own calls. A request can also be
 * refused before it becomes a call, and the routes have to record that themselves.
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
