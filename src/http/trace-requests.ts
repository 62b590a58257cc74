/**
 * Creates a span for each sampled request, which is active while we handle the request. It contains the route's pattern
 * and not the actual path, because a path can contain a subject.
 */
import type { RequestListener } from 'node:http';
import { context, ROOT_CONTEXT, SpanKind, SpanStatusCode, TraceFlags, trace } from '@opentelemetry/api';
import type { Request } from 'express';
import { attributes } from '../observability/trace-names.ts';
import { getTracer, toContext } from '../observability/tracing.ts';

/** Probes and scrapers aren't worth a trace. */
const untraced: readonly (string | undefined)[] = ['/healthz', '/readyz', '/metrics'];
const server = { kind: SpanKind.SERVER };

export interface RequestSampling {
  /** The ratio from 0 to 1 of requests that we trace if the caller doesn't decide. */
  readonly ratio: number;
  /** True if the `traceparent` of a request decides whether it's traced. */
  readonly followsParent: boolean;
}

/**
 * Creates a span for each request. If the request has a valid `traceparent`, that becomes the parent. We decide whether
 * to sample before creating anything, because even an unsampled span takes 0.7 µs. The decision is random and doesn't
 * depend on the trace id, so that callers can't choose ids that are always traced.
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
