import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { type Attempt, noCorrelation, noMemory, type SettledCall } from '../../../src/core/call.ts';
import { noTokens } from '../../../src/core/pricing.ts';
import { createCallMetrics } from '../../../src/observability/metrics/call-metrics.ts';
import { metrics } from '../../../src/observability/metrics/definitions.ts';
import { renderFamilies, toFamilies } from '../../../src/observability/metrics/families.ts';
import { parseMetrics, sumOf } from '../../support/metrics.ts';

const attempt: Attempt = {
  ...{ n: 1, provider: 'one', model: 'echo', status: 200, outcome: 'ok', waitMs: 0, startedAt: 0 },
  ...{ firstByteMs: 120, durationMs: 1_500, costNanos: 2_500_000 },
  tokens: { ...noTokens, input: 10, cachedInput: 5, cacheWrite: 3, output: 7 },
};

function settled(attempts: readonly Attempt[], { stream = false, outcome = 'ok' as SettledCall['result']['outcome'] } = {}): SettledCall {
  return {
    metadata: {
      ...{ id: 'id', startedAt: 0, projectId: 'p', keyId: 'k', keyPrefix: 'x', source: 's', sourceGiven: false, route: 'chat' },
      ...{ modelAsked: 'auto', correlation: noCorrelation, stream, memory: noMemory, plan: [], bodyBytes: 1 },
    },
    result: {
      ...{ outcome, status: 200, code: null, model: 'one/echo', cache: null, tokens: noTokens, costNanos: 0, estimated: false },
      ...{ durationMs: 1_600, firstByteMs: 220, attempts },
    },
    content: null,
  };
}

const create = () => createCallMetrics({ isProvider: (name) => name === 'one', isModel: (id) => id === 'one/echo' });
const read = async (calls: ReturnType<typeof create>) => parseMetrics(await renderFamilies([toFamilies([calls.read()])]));

test('counts a call with failover as one call with several attempts', async () => {
  const calls = create();
  const failed = { ...attempt, outcome: 'failed', status: 500, tokens: noTokens, costNanos: 0, firstByteMs: null } as const;
  calls.recordCall(settled([failed, { ...failed, status: 429 }, attempt], { stream: true }));
  calls.recordCall(settled([{ ...attempt, costNanos: null }]));
  const lines = await read(calls);
  const model = { provider: 'one', model: 'echo' };
  const genAi = { gen_ai_operation_name: 'chat', gen_ai_provider_name: 'one', gen_ai_request_model: 'echo' };
  expect(sumOf(lines, 'gateway_calls_total')).toBe(2);
  expect(sumOf(lines, 'gateway_calls_total', { route: 'chat', outcome: 'ok' })).toBe(2);
  const outcomes = ['ok', 'failed', 'rate_limited'].map((outcome) => sumOf(lines, 'gateway_attempts_total', { ...model, outcome }));
  expect([...outcomes, sumOf(lines, 'gateway_attempts_total')]).toEqual([2, 1, 1, 4]);
  expect(sumOf(lines, 'gateway_cost_usd_total', model)).toBe(0.0025);
  expect(sumOf(lines, 'gateway_unpriced_attempts_total', model)).toBe(1);
  const tokens = ['input', 'output', 'cache_read_input', 'cache_write_input'];
  expect(tokens.map((kind) => sumOf(lines, `gen_ai_client_inference_usage_${kind}_tokens_total`, genAi))).toEqual([36, 14, 10, 6]);
  // 120 ms after the start of its attempt and 220 ms after the start of the call, for the stream only.
  const firstChunk = 'gen_ai_client_inference_time_to_first_chunk_seconds';
  expect(['0.1', '0.25', '+Inf'].map((le) => sumOf(lines, `${firstChunk}_bucket`, { ...genAi, le }))).toEqual([0, 1, 1]);
  expect([sumOf(lines, `${firstChunk}_sum`), sumOf(lines, `${firstChunk}_count`)]).toEqual([0.12, 1]);
  expect(sumOf(lines, 'gateway_call_first_chunk_seconds_sum')).toBe(0.22);
  expect(sumOf(lines, 'gen_ai_client_inference_duration_seconds_sum')).toBe(3);
  expect(sumOf(lines, 'gateway_call_duration_seconds_sum')).toBe(3.2);
});

test('reports an unknown provider or model as `other`', async () => {
  const calls = create();
  const hostile = ['echo"} 1\nfake_total{x="', '\\', 'é'.repeat(300), '__proto__', 'constructor', '', 'one/echo', 'sk-gw-secret'];
  for (const name of hostile) {
    calls.recordCall(settled([{ ...attempt, model: name }]));
    calls.recordCall(settled([{ ...attempt, provider: name }]));
  }
  const lines = await read(calls);
  const used = (label: string) => [...new Set(lines.flatMap(({ labels }) => labels[label] ?? []))].toSorted();
  expect([used('provider'), used('model')]).toEqual([['one', 'other'], ['other']]);
  expect([used('gen_ai_provider_name'), used('gen_ai_request_model')]).toEqual([['one', 'other'], ['other']]);
  expect(sumOf(lines, 'gateway_attempts_total')).toBe(2 * hostile.length);
});

test('each metric uses only the labels from its definition', async () => {
  const calls = create();
  calls.recordCall(settled([attempt], { stream: true }));
  calls.recordErrorResponse('no_route');
  const labelsOf = new Map<string, readonly string[]>(
    Object.values(metrics).flatMap(({ name, type, labels }): [string, readonly string[]][] =>
      type === 'histogram'
        ? [
            [`${name}_bucket`, [...labels, 'le']],
            [`${name}_sum`, labels],
            [`${name}_count`, labels],
          ]
        : [[name, labels]],
    ),
  );
  for (const { name, labels } of await read(calls)) expect([name, Object.keys(labels)]).toEqual([name, labelsOf.get(name)]);
});

test('documents every metric in docs/metrics.md', () => {
  const page = readFileSync(join(import.meta.dirname, '../../../docs/metrics.md'), 'utf8');
  const rows = Object.values(metrics).map(({ name, type, labels, help }) => {
    const listed = [...new Set(labels.map((label) => (label.startsWith('gen_ai_') ? '`gen_ai_*`' : `\`${label}\``)))].join(', ');
    return `| \`${name}\` | ${type} | ${listed} | ${help} |`;
  });
  expect(page.match(/^\| `(?:gateway|gen_ai_client|process|nodejs)_.*$/gm)).toEqual(rows);
});
