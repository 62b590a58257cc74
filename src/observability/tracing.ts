/**
 * Creates spans with OpenTelemetry's API. We only load the SDK if an OTLP endpoint is configured (`tracing-sdk.ts`).
 * Without the SDK, no span is ever active, and the functions in this file return immediately. Only spans of sampled
 * traces are active. Work that happens later, perhaps in another process, continues a trace by its `traceparent` (W3C
 * Trace Context). It's a string with 55 characters, which we store in journal records, outbox rows and Temporal's
 * headers. We neither read nor forward `tracestate`, because it can contain any text.
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

/** Returns the active span as a `traceparent`, or undefined if nothing is being traced. */
export function activeTrace(): string | undefined {
  const span = trace.getActiveSpan();
  return span && toTraceparent(span);
}

/** Returns the id of the active trace for logs, or undefined if nothing is being traced. */
export function activeTraceId(): string | undefined {
  return trace.getActiveSpan()?.spanContext().traceId;
}

export function traceField(traceparent: string | undefined): { readonly trace?: string | undefined } {
  return traceparent === undefined ? {} : { trace: trace.getSpanContext(toContext(traceparent))?.traceId };
}

export function recordErrorCode(code: string): void {
  trace.getActiveSpan()?.setAttribute(attributes.errorType, code);
}

/**
 * Starts a child of the active span, which the caller has to end. Returns null if nothing is being traced. Faster than
 * `inSpan` on the hot path, because it needs no closure.
 */
export function startStep(name: string): Span | null {
  return trace.getActiveSpan() === undefined ? null : getTracer().startSpan(name);
}

/** Runs `work` in a child of the active span. If nothing is being traced, there's no span. */
export function inSpan<Result>(name: string, options: SpanOptions, work: () => Promise<Result>): Promise<Result> {
  return trace.getActiveSpan() === undefined ? work() : runIn(getTracer().startSpan(name, options), context.active(), work);
}

/** Runs `work` in a child of the span in `traceparent`. Without a `traceparent`, `work` isn't traced. */
export function continueTrace<Result>(
  traceparent: string | undefined,
  { name, ...options }: SpanOptions & { readonly name: string },
  work: () => Promise<Result>,
): Promise<Result> {
  if (traceparent === undefined) return outsideTraces(work);
  const parent = toContext(traceparent);
  return runIn(getTracer().startSpan(name, options, parent), parent, work);
}

/** Adds a span for finished work, with the span in `traceparent` as its parent. Times are in epoch milliseconds. */
export function recordSpan(
  traceparent: string,
  { name, endTime, ...options }: SpanOptions & { readonly name: string; readonly endTime: number },
): void {
  getTracer().startSpan(name, options, toContext(traceparent)).end(endTime);
}

/**
 * Traces how a batch of calls is stored. A batch belongs to many traces, so it gets its own, with a link to each
 * sampled call. In the trace of each sampled call, another span shows how long it took to store the call, with a link
 * back to the batch. We don't activate any of these spans, because `store` may start work that belongs to just one of
 * the calls.
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

/**
 * Marks a span as failed. We only record the error's code, because its message could contain text from a caller or a
 * vendor.
 */
export function markFailed(span: Span, error: unknown): void {
  span.setStatus({ code: SpanStatusCode.ERROR });
  span.setAttribute(attributes.errorType, error instanceof GatewayError ? error.code : error instanceof Error ? error.name : 'unknown');
}

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
