/**
 * The metrics of a cluster (cluster.ts). A scrape of the shared port would reach a different process each time, so the
 * parent gets the metrics from all API processes and adds them up. The sums have to stay monotonic, because Prometheus
 * takes a decrease for a restart and counts everything again. If a process has died or doesn't respond in time, we
 * therefore use its counters from the last scrape. What it has counted since then is lost.
 */
import { withTimeout } from '../core/time-limit.ts';
import { type MetricFamily, renderFamilies, samplesBy, sumCounters, toFamilies } from '../observability/metrics/families.ts';

export interface MetricsSource {
  /** Asks the process for its metrics. When it responds, call `receive` with the same id. */
  request(id: number): void;
}

export interface ClusterMetrics {
  add(source: MetricsSource): { receive(id: number, families: readonly MetricFamily[]): void; remove(): void };
  /** Returns the metrics of all processes within two seconds. */
  read(): Promise<string>;
}

interface ChildProcess {
  readonly source: MetricsSource;
  last: readonly MetricFamily[];
  readonly waiting: Map<number, () => void>;
}

const timeoutMs = 2_000;

export function createClusterMetrics(): ClusterMetrics {
  const children = new Set<ChildProcess>();
  /** The counters of processes that have exited. Gauges aren't included. */
  let retired: readonly MetricFamily[] = [];
  let requests = 0;

  const ask = async (child: ChildProcess, id: number): Promise<boolean> => {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    child.waiting.set(id, () => resolve(true));
    child.source.request(id);
    const hasResponded = await withTimeout(promise, timeoutMs, () => false);
    child.waiting.delete(id);
    return hasResponded;
  };

  /** If several processes exit at the same time, their totals are added one after the other. */
  let retiring: Promise<void> = Promise.resolve();
  const retire = (child: ChildProcess): void => {
    children.delete(child);
    for (const end of child.waiting.values()) end();
    retiring = retiring.then(async () => {
      retired = await sumCounters([retired, child.last]);
    });
  };

  return {
    add(source) {
      const child: ChildProcess = { source, last: [], waiting: new Map() };
      children.add(child);
      return {
        receive(id, families) {
          child.last = families;
          child.waiting.get(id)?.();
        },
        remove: () => retire(child),
      };
    },
    async read() {
      requests += 1;
      const id = requests;
      const asked = [...children];
      const responded = await Promise.all(asked.map((child) => ask(child, id)));
      await retiring;
      // Skip processes that have exited in the meantime. Their totals are already in `retired`.
      const present = asked
        .map((child, index) => ({ child, isCurrent: responded[index] === true }))
        .filter(({ child }) => children.has(child));
      const current = present.flatMap(({ child, isCurrent }) => (isCurrent ? [child.last] : []));
      const silent = present.flatMap(({ child, isCurrent }) => (isCurrent ? [] : [child.last]));
      const processes = samplesBy('state', { responding: current.length, silent: silent.length });
      return renderFamilies([toFamilies([{ processes }]), ...current, await sumCounters([retired, ...silent])]);
    },
  };
}
