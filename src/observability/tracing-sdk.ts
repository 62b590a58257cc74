/**
 * Loads the OpenTelemetry SDK and exports spans to an OTLP endpoint in the background, in batches. If the collector is
 * unavailable, only spans are lost.
 */
import { type Context, context, propagation, SpanKind, TraceFlags, trace } from '@opentelemetry/api';
import type { ReadableSpan, Sampler, SamplingDecision, SpanExporter } from '@opentelemetry/sdk-trace';
import type { Logger } from './logger.ts';

export interface TracingSettings {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly resource: Readonly<Record<string, string>>;
}

export interface RunningTracing {
  /** Exports the remaining spans. Rejects if the collector is unavailable. */
  stop(): Promise<void>;
}

/** Call this once per process, before any other module can start a span. */
export async function startTracing(settings: TracingSettings, logger: Logger): Promise<RunningTracing> {
  const [sdk, { OTLPTraceExporter }, { AsyncLocalStorageContextManager }, { W3CTraceContextPropagator }, { resourceFromAttributes }] =
    await Promise.all([
      import('@opentelemetry/sdk-trace'),
      import('@opentelemetry/exporter-trace-otlp-proto'),
      import('@opentelemetry/context-async-hooks'),
      import('@opentelemetry/core'),
      import('@opentelemetry/resources'),
    ]);
  const { url, headers, timeoutMs, resource } = settings;
  const exporter = new OTLPTraceExporter({ url, headers: { ...headers }, timeoutMillis: timeoutMs });
  const provider = new sdk.TracerProvider({
    resource: resourceFromAttributes({ ...resource }),
    sampler: createSampler(sdk.SamplingDecision),
    spanProcessors: [new sdk.BatchSpanProcessor({ exporter: withOutageLog(exporter, logger) })],
  });
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  trace.setGlobalTracerProvider(provider);
  return {
    async stop() {
      await provider.shutdown().finally(() => {
        trace.disable();
        propagation.disable();
        context.disable();
      });
    },
  };
}

/**
 * Samples all spans of requests, and all spans without a parent, because they're only started if the trace is sampled:
 * `trace-requests.ts` doesn't start spans for unsampled requests, and a batch only gets a span if it contains a sampled
 * call. All other spans follow the sampling flag of their parent.
 */
function createSampler(decisions: typeof SamplingDecision): Sampler {
  return {
    shouldSample(parent: Context, _traceId: string, _name: string, kind: SpanKind) {
      const caller = trace.getSpanContext(parent);
      const isSampled = kind === SpanKind.SERVER || caller === undefined || (caller.traceFlags & TraceFlags.SAMPLED) !== 0;
      return { decision: isSampled ? decisions.RECORD_AND_SAMPLED : decisions.NOT_RECORD };
    },
    toString: () => 'GatewaySampler',
  };
}

function withOutageLog(exporter: SpanExporter, logger: Logger): SpanExporter {
  let isFailing = false;
  return {
    export(spans: ReadableSpan[], done) {
      exporter.export(spans, (result) => {
        const hasFailed = result.error !== undefined;
        if (hasFailed && !isFailing) logger.warn({ err: result.error }, 'trace export failed');
        if (!hasFailed && isFailing) logger.info({}, 'trace export recovered');
        isFailing = hasFailed;
        done(result);
      });
    },
    shutdown: () => exporter.shutdown(),
    forceFlush: async () => exporter.forceFlush?.(),
  };
}
