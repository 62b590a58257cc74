/**
 * Creates spans for a settled call from its record, with a child span for each attempt.
 */
import { type Context, context, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { type Attempt, type CallMetadata, kindOf, type SettledCall } from '../core/call.ts';
import type { Tokens } from '../core/pricing.ts';
import { attributes, spanNames } from './trace-names.ts';
import { getTracer } from './tracing.ts';

/**
 * Adds spans for a settled call and its attempts to the active span. Does nothing if there's none. The times come from
 * the call's record, so they're in whole milliseconds.
 */
export function traceCall({ metadata, result }: SettledCall): void {
  if (trace.getActiveSpan() === undefined) return;
  const { outcome, code, status, model, cache, costNanos, tokens, estimated, durationMs } = result;
  const span = getTracer().startSpan(spanNames.call, {
    startTime: metadata.startedAt,
    attributes: {
      [attributes.callId]: metadata.id,
      [attributes.projectId]: metadata.projectId,
      [attributes.operation]: kindOf(metadata.route),
      [attributes.outcome]: outcome,
      [attributes.httpStatus]: status,
      [attributes.estimated]: estimated,
      ...(model !== null && { [attributes.model]: model }),
      ...(cache !== null && { [attributes.cache]: cache }),
      ...(costNanos !== null && { [attributes.costNanos]: costNanos }),
      ...(outcome !== 'ok' && { [attributes.errorType]: code ?? outcome }),
      ...usageOf(tokens),
    },
  });
  if (outcome !== 'ok') span.setStatus({ code: SpanStatusCode.ERROR });
  const parent = trace.setSpan(context.active(), span);
  for (const attempt of result.attempts) traceAttempt(metadata, attempt, parent);
  span.end(metadata.startedAt + durationMs);
}

function traceAttempt({ id, route, stream }: CallMetadata, attempt: Attempt, parent: Context): void {
  const { n, provider, model, member, status, outcome, waitMs, startedAt, firstByteMs, durationMs, costNanos, tokens } = attempt;
  const operation = kindOf(route);
  const options = {
    kind: SpanKind.CLIENT,
    startTime: startedAt,
    attributes: {
      [attributes.callId]: id,
      [attributes.operation]: operation,
      [attributes.provider]: provider,
      [attributes.requestModel]: model,
      [attributes.attempt]: n,
      ...(member !== undefined && { [attributes.member]: member }),
      [attributes.waitMs]: waitMs,
      [attributes.outcome]: outcome,
      ...(status !== null && { [attributes.httpStatus]: status }),
      ...(stream && firstByteMs !== null && { [attributes.timeToFirstChunk]: firstByteMs / 1_000 }),
      ...(costNanos !== null && { [attributes.costNanos]: costNanos }),
      ...(outcome !== 'ok' && { [attributes.errorType]: status !== null && status >= 400 ? String(status) : outcome }),
      ...usageOf(tokens),
    },
  };
  const span = getTracer().startSpan(`${operation} ${model}`, options, parent);
  if (outcome !== 'ok') span.setStatus({ code: SpanStatusCode.ERROR });
  span.end(startedAt + durationMs);
}

/**
 * We count input tokens and cached tokens separately. OpenTelemetry's convention is that input tokens include cache
 * reads and writes.
 */
function usageOf({ input, cachedInput, cacheWrite, cacheWrite1h, output }: Tokens) {
  const written = cacheWrite + cacheWrite1h;
  return {
    [attributes.inputTokens]: input + cachedInput + written,
    [attributes.cacheReadTokens]: cachedInput,
    [attributes.cacheWriteTokens]: written,
    [attributes.outputTokens]: output,
  };
}
