/**
 * Spans, over OpenTelemetry's API. The SDK is loaded only for an OTLP endpoint (`tracing-sdk.ts`): without it no span is ever active, and each
 * function here returns at once and creates nothing.
 *
 * Only spans of sampled traces are active. Work that happens later, perhaps in another process, continues a trace by its `traceparent`
 * (W3C Trace Context), a string of 55 characters in journal records, outbox rows and Temporal's headers. `tracestate` is neither read nor
 * passed on: it may hold any text.
 */
import {
  type Context,
  context,
  propagation,
  ROOT_CONTEXT,
  type Span,
  type SpanOptions,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import { GatewayError } from '../core/errors.ts';
import { attributes, spanNames } from './trace-names.ts';

export function getTracer(): Tracer {
  return trace.getTracer('model-gateway');
}

/** The active span as a `traceparent`; undefined while nothing is traced. */
export function activeTrace(): string | undefined {
  const span = trace.getActiveSpan();
  return span && toTraceparent(span);
}

/** The id of the active trace, for logs; undefined while nothing is traced. */
export function activeTraceId(): string | undefined {
  return trace.getActiveSpan()?.spanContext().traceId;
}

/** The trace id of a stored `traceparent`, as a log field. */
export function traceField(traceparent: string | undefined): { readonly trace?: string | undefined } {
  return traceparent === undefined ? {} : { trace: trace.getSpanContext(toContext(traceparent))?.traceId };
}

/** Names the error of the active span, if any: a code of the gateway. */
export function recordErrorCode(code: string): void {
  trace.getActiveSpan()?.setAttribute(attributes.errorType, code);
}

/** Starts a span below the active one, which the caller ends; null while nothing is traced. For the hot path: it needs no closure. */
export function startStep(name: string): Span | null {
  return trace.getActiveSpan() === undefined ? null : getTracer().startSpan(name);
}

/** Runs `work` in a span below the active one; without one, just runs it. */
export function inSpan<Result>(name: string, options: SpanOptions, work: () => Promise<Result>): Promise<Result> {
  return trace.getActiveSpan() === undefined ? work() : runIn(getTracer().startSpan(name, options), context.active(), work);
}

/** Runs `work` in a span below that of a `traceparent`; without one, outside of every trace. */
export function continueTrace<Result>(
  traceparent: string | undefined,
  { name, ...options }: SpanOptions & { readonly name: string },
  work: () => Promise<Result>,
): Promise<Result> {
  if (traceparent === undefined) return outsideTraces(work);
  const parent = toContext(traceparent);
  return runIn(getTracer().startSpan(name, options, parent), parent, work);
}

/** Records work that has ended, below the span of a `traceparent`. Times are milliseconds since 1970. */
export function recordSpan(
  traceparent: string,
  { name, endTime, ...options }: SpanOptions & { readonly name: string; readonly endTime: number },
): void {
  getTracer().startSpan(name, options, toContext(traceparent)).end(endTime);
}

/**
 * Runs `store`, which stores the calls of these traces together. The batch is a separate trace, because it has as many causes as calls, with
 * links to the sampled ones; each of these gets a span for the time in which it was stored, with a link to the batch. Nothing is active in
 * `store`: what it causes belongs to single calls.
 */
export async function traceBatch(traces: readonly (string | undefined)[], store: () => Promise<void>): Promise<void> {
  const parents = traces.flatMap((traceparent) => (traceparent === undefined ? [] : [toContext(traceparent)]));
  if (parents.length === 0) return outsideTraces(store);
  const tracer = getTracer();
  const links = parents.flatMap((parent) => trace.getSpanContext(parent) ?? []).map((spanContext) => ({ context: spanContext }));
  const batch = tracer.startSpan(spanNames.drain, { root: true, links, attributes: { [attributes.calls]: traces.length } });
  const spans = parents.map((parent) => tracer.startSpan(spanNames.store, { links: [{ context: batch.spanContext() }] }, parent));
  try {
    await outsideTraces(store);
  } catch (error) {
    for (const span of [batch, ...spans]) markFailed(span, error);
    throw error;
  } finally {
    for (const span of [batch, ...spans]) span.end();
  }
}

/** Marks a span as failed, by the code of the error: its message may quote a caller or a vendor. */
export function markFailed(span: Span, error: unknown): void {
  span.setStatus({ code: SpanStatusCode.ERROR });
  span.setAttribute(attributes.errorType, error instanceof GatewayError ? error.code : error instanceof Error ? error.name : 'unknown');
}

/** The context of a `traceparent`; the root when it is invalid. */
export function toContext(traceparent: string): Context {
  return propagation.extract(ROOT_CONTEXT, { traceparent });
}

function toTraceparent(span: Span): string {
  const { traceId, spanId } = span.spanContext();
  return `00-${traceId}-${spanId}-01`;
}

function outsideTraces<Result>(work: () => Result): Result {
  return context.with(ROOT_CONTEXT, work);
}

async function runIn<Result>(span: Span, parent: Context, work: () => Promise<Result>): Promise<Result> {
  try {
    return await context.with(trace.setSpan(parent, span), work);
  } catch (error) {
    markFailed(span, error);
    throw error;
  } finally {
    span.end();
  }
}
