/** One span for each sampled request, active while the request is handled. Of the address it has the route's pattern only: paths hold subjects. */
import type { RequestListener } from 'node:http';
import { context, ROOT_CONTEXT, SpanKind, SpanStatusCode, TraceFlags, trace } from '@opentelemetry/api';
import type { Request } from 'express';
import { attributes } from '../observability/trace-names.ts';
import { getTracer, toContext } from '../observability/tracing.ts';

/** Requests of probes and scrapers, which are not traced. */
const untraced: readonly (string | undefined)[] = ['/healthz', '/readyz', '/metrics'];
const server = { kind: SpanKind.SERVER };

/** Which requests are traced. */
export interface RequestSampling {
  /** Of the requests whose caller does not decide, from 0 to 1. */
  readonly ratio: number;
  /** Whether the `traceparent` of a request decides. */
  readonly followsParent: boolean;
}

/**
 * The listener with spans. A valid `traceparent` of the request is the parent. Requests are chosen before anything is created: a span that is not
 * sampled took 0.7 µs. They are chosen at random, not by the trace id, which a caller could choose so that each of its requests is traced.
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
      // The caller closed the connection before it got a response.
      span.setAttribute(attributes.httpStatus, response.headersSent ? response.statusCode : 499);
      if (response.statusCode >= 500) span.setStatus({ code: SpanStatusCode.ERROR });
      span.end();
    });
    context.with(trace.setSpan(parent, span), () => listener(request, response));
  };
}

/** The pattern of the route that handled the request; null when none did. */
function routeOf({ baseUrl, route }: Request): string | null {
  const path: unknown = route?.path;
  return typeof path === 'string' ? `${baseUrl}${path}` : null;
}
