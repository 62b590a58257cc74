/**
 * Tests that for each fault of `npm run faults`, the documentation says what an operator sees, this exists, and the
 * results have a row for it.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, test } from '@jest/globals';
import { parse } from 'yaml';
import { kinds } from '../../scripts/faults/kinds.js';
import { scaleDurations } from '../../scripts/faults/prometheus.js';
import { findDoubled, formatTable } from '../../scripts/faults/run.js';
import { metrics } from '../../src/observability/metrics/definitions.ts';
import { root } from '../support/gateway-process.ts';

const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const rules: { alert: string }[] = parse(read('deploy/prometheus/alerts.yaml')).groups.flatMap(({ rules }: { rules: object[] }) => rules);

describe.each(Object.entries(kinds))('%s', (_name, { title, expected }) => {
  it('docs/faults.md lists the fault with no lost or duplicated calls', () => {
    const row = read('docs/faults.md')
      .split('\n')
      .find((line) => line.startsWith(`| ${title} |`));
    expect(row?.split('|').slice(4, 6)).toEqual([' 0 ', ' 0 ']);
  });

  it('refers to existing metrics, alerts and log lines', () => {
    const names = Object.values(metrics).map(({ name }) => name);
    const [used = ''] = /\b(?:gateway_\w+|up\b)/.exec(expected.metric) ?? [];
    expect([...names, 'up']).toContain(used);
    const runbooks = read('docs/operating.md');
    if (expected.alert !== null) {
      expect(rules.map(({ alert }) => alert)).toContain(expected.alert);
      expect(runbooks).toContain(`### Alert ${expected.alert}\n`);
    }
    if (expected.log !== null) expect(runbooks.replaceAll(/\s+/g, ' ')).toContain(`\`${expected.log}`);
  });
});

test('speeds up alert rules by scaling their durations', () => {
  const rule = 'expr: rate(a[5m]) > 0.5 and max(gateway_outbox_lag_seconds) > 300\nfor: 2m\nkeep_firing_for: 10m\nscrape_interval: 15s\n';
  expect(scaleDurations(rule, 10)).toBe(
    'expr: rate(a[30000ms]) > 0.5 and max(gateway_outbox_lag_seconds) > 30\nfor: 12000ms\nkeep_firing_for: 60000ms\nscrape_interval: 1500ms\n',
  );
});

test('finds values that occur twice', () => {
  expect(findDoubled(['a', 'b', 'a'])).toEqual(['a']);
  expect(findDoubled(['a', 'b'])).toEqual([]);
});

test('prints a table row for each injected fault', () => {
  const signs = { readyz: null, metric: { seconds: 3.4, text: 'up == 0' }, alert: null, log: null };
  const row = { kind: 'api-killed', seconds: 9, calls: 40, failed: { 'no answer': 2 }, lost: [], doubled: ['a'], facts: 1, signs };
  const table = formatTable([{ ...row, others: [], broken: [] }], 5);
  expect(table).toContain('5 times as fast');
  expect(table).toContain('| an API process is killed (kill -9) and stays down | 40 | 2 × no answer | 0 | 1 |  | 3 s: up == 0 |  |  |');
});
