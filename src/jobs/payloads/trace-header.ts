/** The trace context in Temporal's headers, which `workflows/tracing.ts` passes on to activities. Only runs of sampled calls have one. */
import { defaultPayloadConverter, type Headers } from '@temporalio/common';
import { traceHeader } from '../../../workflows/contract.ts';
import { activeTrace } from '../../observability/tracing.ts';

/** The headers with the active trace; unchanged while nothing is traced. */
export function withTraceHeader(headers: Headers): Headers {
  const trace = activeTrace();
  return trace === undefined ? headers : { ...headers, [traceHeader]: defaultPayloadConverter.toPayload(trace) };
}

/** The `traceparent` in the headers; undefined without a valid one. */
export function readTraceHeader(headers: Headers): string | undefined {
  const payload = headers[traceHeader];
  const value: unknown = payload && defaultPayloadConverter.fromPayload(payload);
  return typeof value === 'string' ? value : undefined;
}
