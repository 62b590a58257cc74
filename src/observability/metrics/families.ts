/**
 * The values of metrics at one scrape, as plain data that processes send to each other, and their text format for
 * Prometheus.
 */
import { Registry } from '@prometheus-io/client';
import { type MetricDefinition, type MetricKey, metrics } from './definitions.ts';

export interface Sample {
  readonly value: number;
  readonly labels: Readonly<Record<string, string>>;
  /** For a histogram, this is its name with `_bucket`, `_sum` or `_count`. */
  readonly metricName?: string;
}

/**
 * Values by metric. A number stands for a metric without labels. Null or absent means that there is no value at
 * present.
 */
export type MetricValues = { readonly [Key in MetricKey]?: number | readonly Sample[] | null };

/** A metric with its samples, in the JSON format of the library. */
export interface MetricFamily extends Pick<MetricDefinition, 'name' | 'help' | 'type' | 'aggregator'> {
  readonly values: readonly Sample[];
}

export const contentType = Registry.PROMETHEUS_CONTENT_TYPE;

/**
 * Returns a family for every metric, which is empty if there are no values. Each metric may only come from one source.
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

/** Combines the families of several processes and writes them in Prometheus's text format. */
export function renderFamilies(ofProcesses: readonly (readonly MetricFamily[])[]): Promise<string> {
  return aggregate(ofProcesses).metrics();
}

/** Sums counters and histograms. They have to stay monotonic after a process exits, so we keep its last values. */
export async function sumCounters(ofProcesses: readonly (readonly MetricFamily[])[]): Promise<readonly MetricFamily[]> {
  const counters = ofProcesses.map((families) => families.filter(({ type }) => type !== 'gauge'));
  const summed = await aggregate(counters).getMetricsAsJSON();
  return summed as readonly MetricFamily[];
}

function aggregate(ofProcesses: readonly (readonly MetricFamily[])[]): Registry {
  return Registry.aggregate(ofProcesses.map((families) => [...families]));
}
