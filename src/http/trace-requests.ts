/**
 * Creates a span for each sampled request, which is active while the request is handled. It only records the pattern of
 * the route, because the actual path may contain a subject.
 */
import type { RequestListener } from 'node:http';
import { context, ROOT_CONTEXT, SpanKind, SpanStatusCode, TraceFlags, trace } from '@opentelemetry/api';
import type { Request } from 'express';
import { attributes } from '../observability/trace-names.ts';
import { getTracer, toContext } from '../observability/tracing.ts';

/** Requests of probes and scrapers aren't traced. */
const untraced: readonly (string | undefined)[] = ['/healthz', '/readyz', '/metrics'];
const server = { kind: SpanKind.SERVER };

/** Decides which requests are traced. */
export interface RequestSampling {
  /** A ratio from 0 to 1 for requests whose caller doesn't decide. */
  readonly ratio: number;
  /** Whether the `traceparent` of a request decides if it's traced. */
  readonly followsParent: boolean;
}

/**
 * Wraps the listener with spans. If a request has a valid `traceparent`, it becomes the parent. We decide about
 * sampling before we create anything, because even an unsampled span took 0.7 µs. The decision is random and doesn't
 * depend on the trace id, since a caller could pick ids that are always traced.
 */
export function traceRequests(listener: RequestListener, { ratio, followsParent }: RequestSampling): RequestListener {
  const tracer = getTracer();
  return (request, response) => {
    const { traceparent } = request.headers;
    const parent = typeof traceparent === 'string' ? toContext(traceparent) : ROOT_CONTEXT;
    const caller = trace.getSpanContext(parent);
    const isChosen = caller && followsParent ? (caller.traceFlags & TraceFlags.SAMPLED) !== 0 : Math.random() < ratio;
    if (!isChosen || untraced.includes(request.url)) return listener(request, response);
    const span = tracer.startSpan('request', server, parent);
    const method = request.method ?? '';
    span.setAttribute(attributes.httpMethod, method);
    response.once('close', () => {
      const route = routeOf(request as Request);
      span.updateName(route === null ? method : `${method} ${route}`);
      if (route !== null) span.setAttribute(attributes.httpRoute, route);
      // 499 means that the caller closed the connection before it got a response.
      span.setAttribute(attributes.httpStatus, response.headersSent ? response.statusCode : 499);
      if (response.statusCode >= 500) span.setStatus({ code: SpanStatusCode.ERROR });
      span.end();
    });
    context.with(trace.setSpan(parent, span), () => listener(request, response));
  };
}

/** Returns the pattern of the route that handled the request, or null if there was none. */
function routeOf({ baseUrl, route }: Request): string | null {
  const path: unknown = route?.path;
  return typeof path === 'string' ? `${baseUrl}${path}` : null;
}
