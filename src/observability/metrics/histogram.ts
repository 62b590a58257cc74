/**
 * A histogram for the hot path. An observation only increments three numbers, whereas the library's histogram creates a
 * key from the labels each time.
 */
import type { MetricDefinition } from './definitions.ts';
import type { Sample } from './families.ts';

/** Upper bounds in milliseconds, from a cache hit to a long completion. */
const boundsMs = [25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 320_000];
const bounds = boundsMs.map((ms) => String(ms / 1_000));

export type Histogram = ReturnType<typeof createHistogram>;

export function createHistogram() {
  const counts = boundsMs.map(() => 0);
  let sumMs = 0;
  let count = 0;
  return {
    observe(ms: number): void {
      sumMs += ms;
      count += 1;
      for (let index = 0; index < boundsMs.length; index += 1) {
        if (ms > (boundsMs[index] ?? 0)) continue;
        counts[index] = (counts[index] ?? 0) + 1;
        return;
      }
    },
    /** Returns samples in seconds. Empty if there were no observations. */
    samples({ name }: MetricDefinition, labels: Sample['labels']): Sample[] {
      if (count === 0) return [];
      let total = 0;
      const buckets = bounds.map((le, index): Sample => {
        total += counts[index] ?? 0;
        return { value: total, labels: { ...labels, le }, metricName: `${name}_bucket` };
      });
      return [
        ...buckets,
        { value: count, labels: { ...labels, le: '+Inf' }, metricName: `${name}_bucket` },
        { value: sumMs / 1_000, labels, metricName: `${name}_sum` },
        { value: count, labels, metricName: `${name}_count` },
      ];
    },
  };
}
