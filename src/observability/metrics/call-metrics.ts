/**
 * Counts calls, attempts and error responses. A call updates about a dozen numbers, which we look up by route, provider
 * and model. We only create labels during a scrape. The library's counters create a key from the labels each time,
 * which takes a hundred times as long (docs/benchmarks.md#metrics). The set of label values is closed, so we count
 * providers and models that aren't configured as `other`.
 */
import { type Attempt, kindOf, type Outcome, outcomes, type Route, routes, type SettledCall } from '../../core/call.ts';
import { type ErrorCode, errorSpecs } from '../../core/errors.ts';
import type { Tokens } from '../../core/pricing.ts';
import { metrics } from './definitions.ts';
import { type MetricValues, type Sample, samplesBy } from './families.ts';
import { createHistogram, type Histogram } from './histogram.ts';

export interface CallMetrics {
  /** Call this exactly once for each settled call. */
  recordCall(call: SettledCall): void;
  recordErrorResponse(code: ErrorCode): void;
  read(): MetricValues;
}

/**
 * Decides which providers and models have labels of their own. All others are counted as `other`. Unknown names are
 * checked again each time, because a reload can add them to the configuration.
 */
export interface KnownNames {
  isProvider(name: string): boolean;
  /** `id` is `<provider>/<model>`. */
  isModel(id: string): boolean;
}

/** An attempt can have the same outcomes as a call, and also `rate_limited` for a 429 from the vendor. */
const attemptOutcomes = [...outcomes, 'rate_limited'] as const;
type AttemptOutcome = (typeof attemptOutcomes)[number];

interface RouteSeries {
  readonly calls: Record<Outcome, number>;
  readonly duration: Histogram;
  readonly firstChunk: Histogram;
}

interface ModelSeries {
  readonly attempts: Record<AttemptOutcome, number>;
  readonly duration: Histogram;
  readonly firstChunk: Histogram;
  costNanos: number;
  unpriced: number;
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite: number;
}

interface MemberSeries {
  readonly names: { readonly provider: string; readonly member: string };
  readonly attempts: Record<AttemptOutcome, number>;
  input: number;
  cacheRead: number;
}

const other = 'other';

export function createCallMetrics({ isProvider, isModel }: KnownNames): CallMetrics {
  const byRoute = new Map<Route, RouteSeries>(routes.map((route) => [route, createRouteSeries()]));
  /**
   * Time series by operation, provider and model. We keep them after a reload, so they include everything that was ever
   * configured.
   */
  const byOperation = new Map<string, Map<string, Map<string, ModelSeries>>>();
  /** Time series by pool member, which are also kept after a reload. */
  const byMember = new Map<string, MemberSeries>();
  const errors = new Map<ErrorCode, number>();
  let unmetered = 0;

  const seriesOf = (operation: string, { provider, model }: Attempt): ModelSeries =>
    byOperation.get(operation)?.get(provider)?.get(model) ?? findSeries(operation, provider, model);

  const findSeries = (operation: string, provider: string, model: string): ModelSeries => {
    const knownProvider = isProvider(provider) ? provider : other;
    const knownModel = knownProvider === provider && isModel(`${provider}/${model}`) ? model : other;
    const ofOperation = getOrAdd(byOperation, operation, () => new Map<string, Map<string, ModelSeries>>());
    const ofProvider = getOrAdd(ofOperation, knownProvider, () => new Map<string, ModelSeries>());
    return getOrAdd(ofProvider, knownModel, createModelSeries);
  };

  const recordMember = (
    provider: string,
    member: string,
    outcome: AttemptOutcome,
    { input, cachedInput, cacheWrite, cacheWrite1h }: Tokens,
  ) => {
    const series = getOrAdd(byMember, `${provider}/${member}`, () => ({
      ...{ names: { provider, member }, attempts: zeros(attemptOutcomes), input: 0, cacheRead: 0 },
    }));
    series.attempts[outcome] += 1;
    series.input += input + cacheWrite + cacheWrite1h;
    series.cacheRead += cachedInput;
  };

  const recordAttempt = (operation: string, attempt: Attempt, isStream: boolean): void => {
    const { provider, member, status, tokens, costNanos, durationMs, firstByteMs } = attempt;
    const outcome = attempt.outcome === 'failed' && status === 429 ? 'rate_limited' : attempt.outcome;
    const series = seriesOf(operation, attempt);
    series.attempts[outcome] += 1;
    if (member !== undefined && isProvider(provider)) recordMember(provider, member, outcome, tokens);
    if (costNanos === null) series.unpriced += 1;
    else series.costNanos += costNanos;
    series.input += tokens.input + tokens.cachedInput + tokens.cacheWrite + tokens.cacheWrite1h;
    series.output += tokens.output;
    series.cacheRead += tokens.cachedInput;
    series.cacheWrite += tokens.cacheWrite + tokens.cacheWrite1h;
    if (outcome === 'ok') series.duration.observe(durationMs);
    if (isStream && firstByteMs !== null) series.firstChunk.observe(firstByteMs);
  };

  return {
    recordCall({ metadata: { route, stream, unmetered: isUnmetered }, result }) {
      const series = byRoute.get(route);
      if (!series) return;
      const { outcome, cache, durationMs, firstByteMs, attempts } = result;
      series.calls[outcome] += 1;
      if (isUnmetered) unmetered += 1;
      if (outcome === 'ok' && cache !== 'hit') series.duration.observe(durationMs);
      if (stream && firstByteMs !== null) series.firstChunk.observe(firstByteMs);
      const operation = kindOf(route);
      for (const attempt of attempts) recordAttempt(operation, attempt, stream);
    },
    recordErrorResponse(code) {
      errors.set(code, (errors.get(code) ?? 0) + 1);
    },
    read() {
      const used = [...byRoute].filter(([, { calls }]) => outcomes.some((outcome) => calls[outcome] > 0));
      const models = [...byOperation].flatMap(([operation, ofOperation]) =>
        [...ofOperation].flatMap(([provider, ofProvider]) =>
          [...ofProvider].map(([model, series]) => ({
            series,
            names: { provider, model },
            genAi: { gen_ai_operation_name: operation, gen_ai_provider_name: provider, gen_ai_request_model: model },
          })),
        ),
      );
      const ofModels = (read: (series: ModelSeries) => number): Sample[] =>
        models.map(({ series, genAi }) => ({ value: read(series), labels: genAi }));
      return {
        calls: used.flatMap(([route, { calls }]) => samplesBy('outcome', calls, { route })),
        callDuration: used.flatMap(([route, { duration }]) => duration.samples(metrics.callDuration, { route })),
        callFirstChunk: used.flatMap(([route, { firstChunk }]) => firstChunk.samples(metrics.callFirstChunk, { route })),
        unmeteredCalls: unmetered,
        errorResponses: errorCodes.map((code) => ({ value: errors.get(code) ?? 0, labels: { code } })),
        attempts: sumByLabels(models.flatMap(({ series, names }) => samplesBy('outcome', series.attempts, names))),
        cost: sumByLabels(models.map(({ series, names }) => ({ value: series.costNanos / 1e9, labels: names }))),
        unpricedAttempts: sumByLabels(models.map(({ series, names }) => ({ value: series.unpriced, labels: names }))),
        inferenceDuration: models.flatMap(({ series, genAi }) => series.duration.samples(metrics.inferenceDuration, genAi)),
        inferenceFirstChunk: models.flatMap(({ series, genAi }) => series.firstChunk.samples(metrics.inferenceFirstChunk, genAi)),
        inputTokens: ofModels(({ input }) => input),
        outputTokens: ofModels(({ output }) => output),
        cacheReadTokens: ofModels(({ cacheRead }) => cacheRead),
        cacheWriteTokens: ofModels(({ cacheWrite }) => cacheWrite),
        memberAttempts: [...byMember.values()].flatMap(({ names, attempts }) => samplesBy('outcome', attempts, { ...names })),
        memberInputTokens: [...byMember.values()].flatMap(({ names, input, cacheRead }) =>
          samplesBy('cache', { read: cacheRead, none: input }, { ...names }),
        ),
      };
    },
  };
}

const errorCodes = Object.keys(errorSpecs) as readonly ErrorCode[];

/** Adds up samples with equal labels. There can be several, e.g. if a model is used for several operations. */
function sumByLabels(samples: readonly Sample[]): Sample[] {
  const sums = new Map<string, Sample>();
  for (const { value, labels } of samples) {
    const key = JSON.stringify(labels);
    sums.set(key, { value: value + (sums.get(key)?.value ?? 0), labels });
  }
  return [...sums.values()];
}

function getOrAdd<Key, Value>(map: Map<Key, Value>, key: Key, create: () => Value): Value {
  const existing = map.get(key);
  if (existing !== undefined) return existing;
  const created = create();
  map.set(key, created);
  return created;
}

function createRouteSeries(): RouteSeries {
  return { calls: zeros(outcomes), duration: createHistogram(), firstChunk: createHistogram() };
}

function createModelSeries(): ModelSeries {
  return {
    attempts: zeros(attemptOutcomes),
    duration: createHistogram(),
    firstChunk: createHistogram(),
    ...{ costNanos: 0, unpriced: 0, input: 0, output: 0, cacheRead: 0, cacheWrite: 0 },
  };
}

function zeros<Name extends string>(names: readonly Name[]): Record<Name, number> {
  return Object.fromEntries(names.map((name) => [name, 0])) as Record<Name, number>;
}
