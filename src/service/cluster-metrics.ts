/**
 * Metrics of a cluster (cluster.ts). The parent asks every API process for its metrics and adds them up, because a
 * scrape of the shared port would reach a different process each time. Sums have to stay monotonic, since Prometheus
 * would take a decrease for a restart and count everything again. So if a process has died or doesn't respond in time,
 * we use its counters from the last scrape. We lose what it counted between that scrape and its death.
 */
import { withTimeout } from '../core/time-limit.ts';
import { type MetricFamily, renderFamilies, sumCounters, toFamilies } from '../observability/metrics/families.ts';

/** A process of the cluster as seen by the parent. */
export interface MetricsSource {
  /** Asks the process for its metrics. The answer is passed to `receive` with the same id. */
  request(id: number): void;
}

export interface ClusterMetrics {
  /** Adds a process. Returns functions to pass on its answers and to remove it after it has exited. */
  add(source: MetricsSource): { receive(id: number, families: readonly MetricFamily[]): void; remove(): void };
  /** Returns the metrics of all processes. Never takes longer than two seconds. */
  read(): Promise<string>;
}

interface ChildProcess {
  readonly source: MetricsSource;
  /** The metrics from the last time the process responded. */
  last: readonly MetricFamily[];
  readonly waiting: Map<number, () => void>;
}

const timeoutMs = 2_000;

export function createClusterMetrics(): ClusterMetrics {
  const children = new Set<ChildProcess>();
  /** Counters of processes that have exited. */
  let retired: readonly MetricFamily[] = [];
  let requests = 0;

  /** Resolves to whether the process responded in time. */
  const ask = async (child: ChildProcess, id: number): Promise<boolean> => {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    child.waiting.set(id, () => resolve(true));
    child.source.request(id);
    const hasResponded = await withTimeout(promise, timeoutMs, () => false);
    child.waiting.delete(id);
    return hasResponded;
  };

  /** Runs one at a time, because two processes may exit at the same moment. */
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
      // A process that has exited in the meantime is already included in `retired`.
      const present = asked
        .map((child, index) => ({ child, isCurrent: responded[index] === true }))
        .filter(({ child }) => children.has(child));
      const current = present.flatMap(({ child, isCurrent }) => (isCurrent ? [child.last] : []));
      const silent = present.flatMap(({ child, isCurrent }) => (isCurrent ? [] : [child.last]));
      const processes = [
        { value: current.length, labels: { state: 'responding' } },
        { value: silent.length, labels: { state: 'silent' } },
      ];
      return renderFamilies([toFamilies([{ processes }]), ...current, await sumCounters([retired, ...silent])]);
    },
  };
}
