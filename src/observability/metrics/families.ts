/**
 * Metric values as plain data, so that processes can send them to each other. Formats them as text for Prometheus.
 */
import { Registry } from '@prometheus-io/client';
import { type MetricDefinition, type MetricKey, metrics } from './definitions.ts';

export interface Sample {
  readonly value: number;
  readonly labels: Readonly<Record<string, string>>;
  /** Only set for histograms. Their samples have the metric's name with a suffix (`_bucket`, `_sum` or `_count`). */
  readonly metricName?: string;
}

/** Creates a sample for each property of `values`, with its name as the value of `label`. */
export function samplesBy(label: string, values: Readonly<Record<string, number>>, labels: Sample['labels'] = {}): Sample[] {
  return Object.entries(values).map(([name, value]) => ({ value, labels: { ...labels, [label]: name } }));
}

/**
 * Current values by metric. A plain number is a metric without labels. Metrics that are null or missing are left out.
 */
export type MetricValues = { readonly [Key in MetricKey]?: number | readonly Sample[] | null };

/** A metric with its samples, in the JSON format of the metrics library. */
export interface MetricFamily extends Pick<MetricDefinition, 'name' | 'help' | 'type' | 'aggregator'> {
  readonly values: readonly Sample[];
}

export const contentType = Registry.PROMETHEUS_CONTENT_TYPE;

/**
 * Combines the values of several sources. Returns all metrics, even those that have no values. Two sources mustn't
 * contain the same metric.
 */
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

export function renderFamilies(ofProcesses: readonly (readonly MetricFamily[])[]): Promise<string> {
  return aggregate(ofProcesses).metrics();
}

/**
 * Adds up counters and histograms, without gauges. A cluster uses this to keep the totals of exited processes, because
 * counters have to stay monotonic.
 */
export async function sumCounters(ofProcesses: readonly (readonly MetricFamily[])[]): Promise<readonly MetricFamily[]> {
  const counters = ofProcesses.map((families) => families.filter(({ type }) => type !== 'gauge'));
  const summed = await aggregate(counters).getMetricsAsJSON();
  return summed as readonly MetricFamily[];
}

function aggregate(ofProcesses: readonly (readonly MetricFamily[])[]): Registry {
  return Registry.aggregate(ofProcesses.map((families) => [...families]));
}
