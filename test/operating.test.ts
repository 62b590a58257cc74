/** docs/operating.md: each failure is proved by a test that exists, and shown by a metric and an alert that exist; each alert has a runbook. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { metrics } from '../src/observability/metrics/definitions.ts';

const read = (path: string): string => readFileSync(join(import.meta.dirname, '..', path), 'utf8');
const page = read('docs/operating.md');
const failures = page.slice(page.indexOf('\n## Failures\n'), page.indexOf('\nNot covered: '));
const rows = (heading: string): string[][] => {
  const [, table = ''] = failures.split(`${heading} |\n`);
  const [, ...lines] = table
    .split(/\n\n|\n$/, 1)
    .join()
    .split('\n');
  return lines.map((line) =>
    line
      .slice(1, -1)
      .split('|')
      .map((cell) => cell.trim()),
  );
};
const shown = rows('| Failure | Callers see | What is kept | Metric | Alert');
const proved = rows('| Failure | Proved by');
const runbooks = [...page.matchAll(/^### Alert (\w+)$/gm)].map(([, name]) => name);
const { groups }: { groups: { rules: { alert: string }[] }[] } = parse(read('deploy/prometheus/alerts.yaml'));
const alerts = groups.flatMap(({ rules }) => rules.map(({ alert }) => alert));

test('each failure is proved by tests that exist', () => {
  expect(proved.length).toBeGreaterThan(9);
  for (const [, proof = ''] of proved) {
    const [, file = '', title = ''] = /^`(test\/\S+)`: (.+)$/.exec(proof) ?? [];
    expect([proof, read(file).includes(`'${title}'`)]).toEqual([proof, true]);
  }
  const names = proved.flatMap(([failure = '']) => (failure === '' ? [] : failure.split(', ')));
  const failing = shown.map(([failure = '']) => failure.replace(/ by another transaction$/, ''));
  expect(names.toSorted()).toEqual(failing.toSorted());
});

test('each failure is shown by a metric and an alert that exist', () => {
  const known = new Set<string>(Object.values(metrics).map(({ name }) => name));
  expect(shown).toHaveLength(12);
  for (const [failure, , , metric = '', alert = ''] of shown) {
    const names = [...metric.matchAll(/`(\w+)`/g)].map(([, name = '']) => name);
    expect([failure, names.length > 0, names.filter((name) => !known.has(name))]).toEqual([failure, true, []]);
    expect(alerts).toContain(/^\[(\w+)\]/.exec(alert)?.[1]);
  }
});

test('each alert has a runbook, in the order of the file', () => {
  expect(runbooks).toEqual(alerts);
});
