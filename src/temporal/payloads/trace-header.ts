/**
 * Reads and writes the trace context in Temporal headers, from where `workflows/tracing.ts` passes it on to activities.
 * A run only has a trace context if it was caused by a sampled call.
 */
import { defaultPayloadConverter, type Headers } from '@temporalio/common';
import { traceHeader } from '../../../workflows/contract.ts';
import { activeTrace } from '../../observability/tracing.ts';

export function withTraceHeader(headers: Headers): Headers {
  const trace = activeTrace();
  return trace === undefined ? headers : { ...headers, [traceHeader]: defaultPayloadConverter.toPayload(trace) };
}

/** Returns the `traceparent` from the headers. Undefined if it's missing or invalid. */
export function readTraceHeader(headers: Headers): string | undefined {
  const payload = headers[traceHeader];
  const value: unknown = payload && defaultPayloadConverter.fromPayload(payload);
  return typeof value === 'string' ? value : undefined;
}
