/** One span for each sampled request, active while the request is handled. Of the address it has the route's pattern only: paths hold subjects. */
import type { RequestListener } from 'node:http';
import { context, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import type { Request } from 'express';
import { attributes } from '../observability/trace-names.ts';
import { getTracer, toContext } from '../observability/tracing.ts';

/** Requests of probes and scrapers, of which nobody needs a trace. */
const untraced: readonly (string | undefined)[] = ['/healthz', '/readyz', '/metrics'];
const server = { kind: SpanKind.SERVER };

/**
 * The listener with spans. A valid `traceparent` of the request is the parent; of the requests without one, `ratio` are traced. They are chosen before
 * anything is created: a span that is not sampled took 0.7 µs.
 */
export function traceRequests(listener: RequestListener, ratio: number): RequestListener {
  const tracer = getTracer();
  return (request, response) => {
    const { traceparent } = request.headers;
    const parent = typeof traceparent === 'string' ? toContext(traceparent) : ROOT_CONTEXT;
    const isChosen = trace.getSpanContext(parent) !== undefined || Math.random() < ratio;
    if (!isChosen || untraced.includes(request.url)) return listener(request, response);
    const span = tracer.startSpan('request', server, parent);
    if (!span.isRecording()) return listener(request, response);
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
