/**
 * Measures the CPU, memory and event loop of this process. We don't use the library's default metrics, because they
 * wake an idle process a hundred times a second, and average the lag when values of several processes are combined.
 */
import { readdir } from 'node:fs/promises';
import { monitorEventLoopDelay, performance } from 'node:perf_hooks';
import type { MetricValues } from './families.ts';

/** A finer resolution would wake up an idle process more often. We may miss stalls that are shorter than this. */
const resolutionMs = 100;

export interface ProcessMetrics {
  read(): Promise<MetricValues>;
  stop(): void;
}

export function createProcessMetrics(): ProcessMetrics {
  const delays = monitorEventLoopDelay({ resolution: resolutionMs });
  delays.enable();
  let utilization = performance.eventLoopUtilization();
  /** The monitor measures the time between two of its timers, so subtract the interval to get the delay. */
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
      // The count is 0 if none of the monitor's timers has fired since the last scrape. We have no measurement then.
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

/** Returns null on systems without `/proc`. */
function countOpenFiles(): Promise<number | null> {
  return readdir('/proc/self/fd').then(
    ({ length }) => length,
    () => null,
  );
}
