import type { Call, MediaCall } from '../core/call.ts';
import type { RecordRefusal } from '../usage/refusals/recorder.ts';

/**
 * Wraps a call handler so that calls that it refuses are recorded, including the gateway's own calls. Requests can also
 * be refused before there's a call. The routes have to record those themselves.
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
