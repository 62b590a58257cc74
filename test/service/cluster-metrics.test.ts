/**
 * Tests the merged metrics of several processes and the server for these metrics, without starting the processes.
 * cluster.test.ts starts them.
 */
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { createLogger } from '../../src/observability/logger.ts';
import { type MetricFamily, toFamilies } from '../../src/observability/metrics/families.ts';
import { createClusterMetrics } from '../../src/service/cluster-metrics.ts';
import { startMetricsServer } from '../../src/service/metrics-server.ts';
import { parseMetrics, sumOf } from '../support/metrics.ts';
import { unusedPort } from '../support/unused-port.ts';

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

test('adds up the counters of all processes, including dead ones', async () => {
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

test('collects the metrics only once for concurrent requests', async () => {
  let reads = 0;
  const readMetrics = async (): Promise<string> => {
    reads += 1;
    await nextTurn();
    return 'up 1\n';
  };
  const port = await unusedPort();
  const stop = await startMetricsServer({ address: { host: '127.0.0.1', port }, readMetrics, logger: createLogger({ level: 'silent' }) });
  try {
    const socket = connect(port, '127.0.0.1');
    // Both requests go into one write, so that they arrive together.
    const request = (connection: string): string => `GET /metrics HTTP/1.1\r\nhost: gateway\r\nconnection: ${connection}\r\n\r\n`;
    socket.write(request('keep-alive').repeat(4) + request('close'));
    expect((await text(socket)).match(/up 1\n/g)).toHaveLength(5);
    expect(reads).toBe(1);
  } finally {
    await stop();
  }
});
