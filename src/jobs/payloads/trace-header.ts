/**
 * Reads and writes the trace context in Temporal's headers, which `workflows/tracing.ts` passes on to activities. Only
 * runs of sampled calls have one.
 */
import { defaultPayloadConverter, type Headers } from '@temporalio/common';
import { traceHeader } from '../../../workflows/contract.ts';
import { activeTrace } from '../../observability/tracing.ts';

/** Adds the active trace to the headers, if there is one. */
export function withTraceHeader(headers: Headers): Headers {
  const trace = activeTrace();
  return trace === undefined ? headers : { ...headers, [traceHeader]: defaultPayloadConverter.toPayload(trace) };
}

/** Returns the `traceparent` in the headers, or undefined if there's no valid one. */
export function readTraceHeader(headers: Headers): string | undefined {
  const payload = headers[traceHeader];
  const value: unknown = payload && defaultPayloadConverter.fromPayload(payload);
  return typeof value === 'string' ? value : undefined;
}
