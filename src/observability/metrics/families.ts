/**
 * The values of metrics during a scrape. They are plain data, so that processes can send them to each other. Also
 * formats them as text for Prometheus.
 */
import { Registry } from '@prometheus-io/client';
import { type MetricDefinition, type MetricKey, metrics } from './definitions.ts';

export interface Sample {
  readonly value: number;
  readonly labels: Readonly<Record<string, string>>;
  /**
   * The name of the metric. Only set for histograms, because the names of their samples end with `_bucket`, `_sum` or
   * `_count`.
   */
  readonly metricName?: string;
}

/** Returns a sample for each value. The label `label` has the value's name. */
export function samplesBy(label: string, values: Readonly<Record<string, number>>, labels: Sample['labels'] = {}): Sample[] {
  return Object.entries(values).map(([name, value]) => ({ value, labels: { ...labels, [label]: name } }));
}

/**
 * The current values of the metrics. A metric without labels has a single number. If the value is null or absent, the
 * metric isn't reported.
 */
export type MetricValues = { readonly [Key in MetricKey]?: number | readonly Sample[] | null };

/** A metric with its samples, in the JSON format of the metrics library. */
export interface MetricFamily extends Pick<MetricDefinition, 'name' | 'help' | 'type' | 'aggregator'> {
  readonly values: readonly Sample[];
}

export const contentType = Registry.PROMETHEUS_CONTENT_TYPE;

/** Builds a family per metric, including metrics without values. No two sources may have the same metric. */
export function toFamilies(sources: readonly MetricValues[]): MetricFamily[] {
  const all: MetricValues = Object.assign({}, ...sources);
  return Object.entries(metrics).map(([key, { name, help, type, aggregator }]) => ({
    ...{ name, help, type, aggregator },
    values: toSamples(all[key as MetricKey]),
  }));
}

function toSamples(values: number | readonly Sample[] | null | undefined): readonly Sample[] {
  if (typeof values === 'number') return [{ value: values, labels: {} }];
  return values ?? [];
}

/** Combines the families of several processes, and formats them as text for Prometheus. */
export function renderFamilies(ofProcesses: readonly (readonly MetricFamily[])[]): Promise<string> {
  return aggregate(ofProcesses).metrics();
}

/** Adds up counters and histograms. They have to stay monotonic after a process exits, so we keep its last values. */
export async function sumCounters(ofProcesses: readonly (readonly MetricFamily[])[]): Promise<readonly MetricFamily[]> {
  const counters = ofProcesses.map((families) => families.filter(({ type }) => type !== 'gauge'));
  const summed = await aggregate(counters).getMetricsAsJSON();
  return summed as readonly MetricFamily[];
}

function aggregate(ofProcesses: readonly (readonly MetricFamily[])[]): Registry {
  return Registry.aggregate(ofProcesses.map((families) => [...families]));
}
