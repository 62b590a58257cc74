/**
 * CPU, memory and event loop of this process. Not the library's defaults: these wake an idle process a hundred times a second, and of several
 * processes they average the lag.
 */
import { readdir } from 'node:fs/promises';
import { monitorEventLoopDelay, performance } from 'node:perf_hooks';
import type { MetricValues } from './families.ts';

/** The monitor is a timer, which wakes an idle process. A shorter stall can pass between two of them. */
const resolutionMs = 100;

export interface ProcessMetrics {
  read(): Promise<MetricValues>;
  stop(): void;
}

export function createProcessMetrics(): ProcessMetrics {
  const delays = monitorEventLoopDelay({ resolution: resolutionMs });
  delays.enable();
  let utilization = performance.eventLoopUtilization();
  /** The delays are those between two timers. */
  const lagSeconds = (nanos: number): number => Math.max(0, nanos / 1e9 - resolutionMs / 1_000);

  return {
    async read() {
      const { user, system } = process.cpuUsage();
      const { rss, heapUsed, external } = process.memoryUsage();
      const now = performance.eventLoopUtilization();
      const ratio = performance.eventLoopUtilization(now, utilization).utilization;
      utilization = now;
      const lag = [
        { labels: { quantile: '0.99' }, value: lagSeconds(delays.percentile(99)) },
        { labels: { quantile: '1' }, value: lagSeconds(delays.max) },
      ];
      // Without a timer since the last scrape, the figures are not of this time.
      const eventLoopLag = delays.count === 0 ? [] : lag;
      delays.reset();
      return {
        ...{ eventLoopLag, eventLoopUtilization: ratio, cpu: (user + system) / 1e6, residentMemory: rss, heapUsed },
        externalMemory: external,
        openFiles: await countOpenFiles(),
      };
    },
    stop: () => void delays.disable(),
  };
}

/** Null where there is no `/proc`. */
function countOpenFiles(): Promise<number | null> {
  return readdir('/proc/self/fd').then(
    ({ length }) => length,
    () => null,
  );
}
