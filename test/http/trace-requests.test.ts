import { once } from 'node:events';
import { createServer } from 'node:http';
import { expect, test } from '@jest/globals';
import { type RequestSampling, traceRequests } from '../../src/http/trace-requests.ts';
import { activeTraceId } from '../../src/observability/tracing.ts';
import { startTracing } from '../../src/observability/tracing-sdk.ts';
import { createOtlpCollector } from '../support/otlp-collector.ts';
import { createTestLog } from '../support/temporal.ts';

const traceId = '0af7651916cd43dd8448eb211c80319c';
const sampled = `00-${traceId}-b7ad6b7169203331-01`;
const unsampled = `00-${traceId}-b7ad6b7169203331-00`;

/** Returns the trace ids that the handlers of these requests see and those of the spans that the collector receives. */
async function request(sampling: RequestSampling, headers: readonly Record<string, string>[], path = '/v1/models') {
  const collector = await createOtlpCollector();
  const { logger, lines } = createTestLog();
  const settings = { url: `${collector.url}/v1/traces`, headers: {}, timeoutMs: 1_000, resource: {} };
  const tracing = await startTracing(settings, logger);
  const seen: (string | undefined)[] = [];
  const listener = traceRequests((_request, response) => {
    seen.push(activeTraceId());
    response.end();
  }, sampling);
  const server = createServer(listener).listen(0, '127.0.0.1');
  try {
    await once(server, 'listening');
    const address = server.address();
    const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}${path}`;
    for (const given of headers) await (await fetch(url, { headers: given })).text();
  } finally {
    server.closeAllConnections();
    server.close();
    await tracing.stop();
    await collector.close();
  }
  return { seen, spans: collector.spans.map((span) => span.traceId), lines };
}

test('traces a request if its traceparent header is sampled', async () => {
  const headers = [{ traceparent: sampled }, { traceparent: unsampled }, {}, { traceparent: 'invalid' }, { traceparent: sampled }];
  const none = await request({ ratio: 0, followsParent: true }, headers);
  expect(none.seen).toEqual([traceId, undefined, undefined, undefined, traceId]);
  expect(none.spans).toEqual([traceId, traceId]);
  const all = await request({ ratio: 1, followsParent: true }, headers);
  const own = expect.stringMatching(/^[\da-f]{32}$/);
  expect(all.seen).toEqual([traceId, undefined, own, own, traceId]);
  expect(new Set(all.spans).size).toBe(3);
});

test("samples all requests by ratio if callers' sampling decisions are ignored", async () => {
  const headers = [{ traceparent: sampled }, { traceparent: unsampled }, {}];
  expect((await request({ ratio: 0, followsParent: false }, headers)).seen).toEqual([undefined, undefined, undefined]);
  expect((await request({ ratio: 1, followsParent: false }, headers)).seen).toEqual([traceId, traceId, expect.any(String)]);
  expect((await request({ ratio: 1, followsParent: false }, headers, '/readyz')).spans).toEqual([]);
});

test("callers can't force sampling by choosing a particular trace id", async () => {
  const lowest = { traceparent: `00-${'0'.repeat(31)}1-b7ad6b7169203331-01` };
  expect((await request({ ratio: 1e-9, followsParent: false }, [lowest])).seen).toEqual([undefined]);
});
