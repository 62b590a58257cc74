/** Metrics of several processes as one scrape, without the processes: those are in cluster.test.ts. */
import { expect, test } from '@jest/globals';
import { type MetricFamily, toFamilies } from '../../src/observability/metrics/families.ts';
import { createClusterMetrics } from '../../src/service/cluster-metrics.ts';
import { parseMetrics, sumOf } from '../support/metrics.ts';

function createProcess(cluster: ReturnType<typeof createClusterMetrics>, values: { stored: number; inFlight: number; lag: number }) {
  const state = { ...values, isSilent: false };
  const families = (): readonly MetricFamily[] =>
    toFamilies([{ unmeteredCalls: state.stored, callsInFlight: state.inFlight, journalLag: state.lag }]);
  const { receive, remove } = cluster.add({
    request(id) {
      if (!state.isSilent) setImmediate(() => receive(id, families()));
    },
  });
  return Object.assign(state, { remove });
}

const read = async (cluster: ReturnType<typeof createClusterMetrics>) => {
  const lines = parseMetrics(await cluster.read());
  const names = ['gateway_unmetered_calls_total', 'gateway_calls_in_flight', 'gateway_journal_lag_seconds'];
  return [
    ...names.map((name) => sumOf(lines, name)),
    ...['responding', 'silent'].map((state) => sumOf(lines, 'gateway_processes', { state })),
  ];
};

test('counters are added up, also of processes that died or do not respond; gauges of those that respond only', async () => {
  const cluster = createClusterMetrics();
  const one = createProcess(cluster, { stored: 5, inFlight: 2, lag: 1 });
  const two = createProcess(cluster, { stored: 7, inFlight: 1, lag: 4 });
  expect(await read(cluster)).toEqual([12, 3, 4, 2, 0]);
  two.isSilent = true;
  one.stored = 6;
  expect(await read(cluster)).toEqual([13, 2, 1, 1, 1]);
  two.remove();
  expect(await read(cluster)).toEqual([13, 2, 1, 1, 0]);
  const replacement = createProcess(cluster, { stored: 1, inFlight: 0, lag: 0 });
  expect(await read(cluster)).toEqual([14, 2, 1, 2, 0]);
  replacement.remove();
  one.remove();
  expect(await read(cluster)).toEqual([14, 0, 0, 0, 0]);
});
