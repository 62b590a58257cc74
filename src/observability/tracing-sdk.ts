/**
 * Loads OpenTelemetry's SDK and exports spans to an OTLP endpoint, in batches and in the background. A collector that is unavailable costs spans and
 * nothing else.
 */
import { type Attributes, type Context, context, type Link, propagation, type SpanKind, TraceFlags, trace } from '@opentelemetry/api';
import type { ReadableSpan, Sampler, SpanExporter } from '@opentelemetry/sdk-trace';
import type { Logger } from './logger.ts';

export interface TracingSettings {
  /** The complete address to which traces are sent. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  /** Describe the process; `service.name` is among them. */
  readonly resource: Readonly<Record<string, string>>;
  readonly sampler: {
    /** Of the traces that begin here, from 0 to 1. */
    readonly ratio: number;
    /** Whether a `traceparent` of the caller decides instead. */
    readonly followsParent: boolean;
  };
}

export interface RunningTracing {
  /** Exports what is left; rejects when the collector is unavailable. */
  stop(): Promise<void>;
}

/** Call it before anything that may start a span; once per process. */
export async function startTracing(settings: TracingSettings, logger: Logger): Promise<RunningTracing> {
  const [sdk, { OTLPTraceExporter }, { AsyncLocalStorageContextManager }, { W3CTraceContextPropagator }, { resourceFromAttributes }] =
    await Promise.all([
      import('@opentelemetry/sdk-trace'),
      import('@opentelemetry/exporter-trace-otlp-proto'),
      import('@opentelemetry/context-async-hooks'),
      import('@opentelemetry/core'),
      import('@opentelemetry/resources'),
    ]);
  const { url, headers, timeoutMs, resource, sampler } = settings;
  const root = new sdk.TraceIdRatioBasedSampler(sampler.ratio);
  const exporter = new OTLPTraceExporter({ url, headers: { ...headers }, timeoutMillis: timeoutMs });
  const provider = new sdk.TracerProvider({
    resource: resourceFromAttributes({ ...resource }),
    sampler: withLinks(sampler.followsParent ? new sdk.ParentBasedSampler({ root }) : root, sdk.SamplingDecision.RECORD_AND_SAMPLED),
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

/** A batch is a separate trace, which is sampled when one of the calls that it links to is. */
function withLinks(sampler: Sampler, sampled: ReturnType<Sampler['shouldSample']>['decision']): Sampler {
  return {
    shouldSample: (parent: Context, traceId: string, name: string, kind: SpanKind, given: Attributes, links: Link[]) =>
      links.some((link) => (link.context.traceFlags & TraceFlags.SAMPLED) !== 0)
        ? { decision: sampled }
        : sampler.shouldSample(parent, traceId, name, kind, given, links),
    toString: () => String(sampler),
  };
}

/** Logs one line when an outage of the collector begins and one when it ends. */
function withOutageLog(exporter: SpanExporter, logger: Logger): SpanExporter {
  let isFailing = false;
  return {
    export(spans: ReadableSpan[], done) {
      exporter.export(spans, (result) => {
        const hasFailed = result.error !== undefined;
        if (hasFailed && !isFailing) logger.warn({ err: result.error }, 'traces not exported');
        if (!hasFailed && isFailing) logger.info({}, 'traces exported again');
        isFailing = hasFailed;
        done(result);
      });
    },
    shutdown: () => exporter.shutdown(),
    forceFlush: async () => exporter.forceFlush?.(),
  };
}
