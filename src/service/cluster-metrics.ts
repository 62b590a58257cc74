/**
 * Metrics of a cluster (cluster.ts): the parent asks every API process for its metrics and adds them up, since a scrape of a shared port would
 * reach one process only, another each time.
 *
 * Sums never become smaller: the counters of a process that died, or does not respond in time, are those of its last scrape. Otherwise
 * Prometheus would see a restart, and count everything again. What a process counted between its last scrape and its death is missing.
 */
import { withTimeout } from '../core/time-limit.ts';
import { type MetricFamily, renderFamilies, sumCounters, toFamilies } from '../observability/metrics/families.ts';

/** A process of the cluster, as the parent reaches it. */
export interface MetricsSource {
  /** Asks for its metrics; the answer is passed to `receive` with the same id. */
  request(id: number): void;
}

export interface ClusterMetrics {
  /** Adds a process. Returns what receives its answers, and what to call when it has exited. */
  add(source: MetricsSource): { receive(id: number, families: readonly MetricFamily[]): void; remove(): void };
  /** The metrics of all processes. Never takes longer than two seconds. */
  read(): Promise<string>;
}

interface Member {
  readonly source: MetricsSource;
  /** Its metrics when it last responded. */
  last: readonly MetricFamily[];
  readonly waiting: Map<number, () => void>;
}

const timeoutMs = 2_000;

export function createClusterMetrics(): ClusterMetrics {
  const members = new Set<Member>();
  /** Counters of processes that have exited. */
  let retired: readonly MetricFamily[] = [];
  let requests = 0;

  /** Whether the process responded in time. */
  const ask = async (member: Member, id: number): Promise<boolean> => {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    member.waiting.set(id, () => resolve(true));
    member.source.request(id);
    const hasResponded = await withTimeout(promise, timeoutMs, () => false);
    member.waiting.delete(id);
    return hasResponded;
  };

  /** In order: two processes may exit at once. */
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
      // A process that exited meanwhile is among the retired ones.
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
