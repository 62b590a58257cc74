/**
 * Creates a span for each sampled request, and keeps it active while we handle the request. The span contains the
 * pattern of the route instead of the path, because a path can contain a subject.
 */
import type { RequestListener } from 'node:http';
import { context, ROOT_CONTEXT, SpanKind, SpanStatusCode, TraceFlags, trace } from '@opentelemetry/api';
import type { Request } from 'express';
import { attributes } from '../observability/trace-names.ts';
import { getTracer, toContext } from '../observability/tracing.ts';

/** Nobody needs traces of health checks and metrics scrapes. */
const untraced: readonly (string | undefined)[] = ['/healthz', '/readyz', '/metrics'];
const server = { kind: SpanKind.SERVER };

export interface RequestSampling {
  /** The fraction of requests to sample (0 to 1) if the caller hasn't already decided. */
  readonly ratio: number;
  /** True if we follow the caller's sampling decision in `traceparent`. */
  readonly followsParent: boolean;
}

/**
 * Creates spans for requests. If a request has a valid `traceparent`, that becomes the parent. We make the sampling
 * decision before we create anything, because even an unsampled span takes 0.7 µs. The decision is random. If it
 * depended on the trace id, callers could choose ids that are always traced.
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

function routeOf({ baseUrl, route }: Request): string | null {
  const path: unknown = route?.path;
  return typeof path === 'string' ? `${baseUrl}${path}` : null;
}
