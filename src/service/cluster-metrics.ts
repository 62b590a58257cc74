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

interface Member {
  readonly source: MetricsSource;
  /** The metrics from the last time the process responded. */
  last: readonly MetricFamily[];
  readonly waiting: Map<number, () => void>;
}

const timeoutMs = 2_000;

export function createClusterMetrics(): ClusterMetrics {
  const members = new Set<Member>();
  /** Counters of processes that have exited. */
  let retired: readonly MetricFamily[] = [];
  let requests = 0;

  /** Resolves to whether the process responded in time. */
  const ask = async (member: Member, id: number): Promise<boolean> => {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    member.waiting.set(id, () => resolve(true));
    member.source.request(id);
    const hasResponded = await withTimeout(promise, timeoutMs, () => false);
    member.waiting.delete(id);
    return hasResponded;
  };

  /** Runs one at a time, because two processes may exit at the same moment. */
  let retiring: Promise<void> = Promise.resolve();
  const retire = (member: Member): void => {
    members.delete(member);
    for (const end of member.waiting.values()) end();
    retiring = retiring.then(async () => {
      retired = await sumCounters([retired, member.last]);
    });
  };

  return {
    add(source) {
      const member: Member = { source, last: [], waiting: new Map() };
      members.add(member);
      return {
        receive(id, families) {
          member.last = families;
          member.waiting.get(id)?.();
        },
        remove: () => retire(member),
      };
    },
    async read() {
      requests += 1;
      const id = requests;
      const asked = [...members];
      const responded = await Promise.all(asked.map((member) => ask(member, id)));
      await retiring;
      // A process that has exited in the meantime is already included in `retired`.
      const present = asked
        .map((member, index) => ({ member, isCurrent: responded[index] === true }))
        .filter(({ member }) => members.has(member));
      const current = present.flatMap(({ member, isCurrent }) => (isCurrent ? [member.last] : []));
      const silent = present.flatMap(({ member, isCurrent }) => (isCurrent ? [] : [member.last]));
      const processes = [
        { value: current.length, labels: { state: 'responding' } },
        { value: silent.length, labels: { state: 'silent' } },
      ];
      return renderFamilies([toFamilies([{ processes }]), ...current, await sumCounters([retired, ...silent])]);
    },
  };
}
