/**
 * Checks docs/operating.md. For each failure there has to be an existing test as well as an existing metric and alert.
 * Each alert needs a runbook, and log lines that are quoted on pages have to exist.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { metrics } from '../src/observability/metrics/definitions.ts';

const read = (path: string): string => readFileSync(join(import.meta.dirname, '..', path), 'utf8');
const page = read('docs/operating.md');
const failures = page.slice(page.indexOf('\n## Failures\n'), page.indexOf('\n## Upgrade\n'));
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

test('the operating guide names an existing test for each failure', () => {
  expect(proved.length).toBeGreaterThan(9);
  for (const [, proof = ''] of proved) {
    const [, file = '', title = ''] = /^`(test\/\S+)`: (.+)$/.exec(proof) ?? [];
    expect([proof, read(file).includes(`'${title}'`)]).toEqual([proof, true]);
  }
  const names = proved.flatMap(([failure = '']) => (failure === '' ? [] : failure.split(', ')));
  const failing = shown.map(([failure = '']) => failure.replace(/ by another transaction$/, ''));
  expect(names.toSorted()).toEqual(failing.toSorted());
});

test('the operating guide names an existing metric and alert for each failure', () => {
  const known = new Set<string>(Object.values(metrics).map(({ name }) => name));
  expect(shown).toHaveLength(16);
  for (const [failure, , , metric = '', alert = ''] of shown) {
    const names = [...metric.matchAll(/`(\w+)`/g)].map(([, name = '']) => name);
    expect([failure, names.length > 0, names.filter((name) => !known.has(name))]).toEqual([failure, true, []]);
    expect(alerts).toContain(/^\[(\w+)\]/.exec(alert)?.[1]);
  }
});

test('the operating guide has a runbook for each alert', () => {
  expect(runbooks).toEqual(alerts);
});

test('each runbook ends by explaining how to tell that the problem is over', () => {
  const known = new Set<string>(Object.values(metrics).map(({ name }) => name));
  const [, ...sections] = page.slice(page.indexOf('\n### A process is stopping\n')).split(/^### /m);
  const signs = sections
    .filter((section) => /^A/.test(section))
    .map((section) => [section.split('\n', 1)[0], /^The problem is over when .*$/ms.exec(section)?.[0] ?? ''] as const);
  expect(signs).toHaveLength(alerts.length + 1);
  for (const [runbook, sign] of signs) {
    const names = [...sign.matchAll(/`(gateway_\w+)`/g)].map(([, name = '']) => name);
    expect([runbook, /`/.test(sign), names.filter((name) => !known.has(name))]).toEqual([runbook, true, []]);
  }
});

/** Matches commands, and SQL that starts like a sentence. */
const command =
  /^(?:gateway|npx|npm|curl|df|du|kill|psql|pg_dump|pg_isready|openssl|temporal|docker|kubectl|select|create|alter|grant|reindex|not null) /;

/**
 * Returns the log lines that a page quotes: code spans of several words that are not commands, in paragraphs and rows
 * about the log. The runbooks quote nothing else, so there we take every span.
 */
function quotedLogLines(text: string): string[] {
  const blocks = text.replaceAll(/^```.*?^```/gms, '').split(/\n(?:\n+|(?=\||\d\. |- ))/);
  const runbooks = blocks.findIndex((block) => block.includes('## Runbooks'));
  return blocks.flatMap((block, index) => {
    if (!/\blog(?:s|ged)?\b/i.test(block) && (runbooks < 0 || index < runbooks)) return [];
    const spans = [...block.matchAll(/(?<!`reason` is\s)`([A-Za-z][a-z]*(?:\s+[^`]+)+)`/g)].map(([, span = '']) =>
      span.replaceAll(/\s+/g, ' '),
    );
    return spans.filter((span) => /^\w+ [a-z(]/.test(span) && !command.test(`${span} `));
  });
}

/** The source code of everything that logs. */
const sources = ['src', 'activities', 'workflows']
  .flatMap((folder) =>
    readdirSync(join(import.meta.dirname, '..', folder), { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name)),
  )
  .filter((path) => path.endsWith('.ts'))
  .map(read)
  .join('\n');

test('the operating guide explains every reason that `/readyz` can return', () => {
  const [, table = ''] = page.split('| Text | Where | What to do, or when it ends |\n');
  const [rows = ''] = table.split('\n\n', 1);
  const texts = [...rows.matchAll(/^\| (`.*?`) \| `/gm)].flatMap(([, cell = '']) =>
    [...cell.matchAll(/`([^`]+)`/g)].map(([, text = '']) => text),
  );
  expect(texts.length).toBeGreaterThan(15);
  const isWritten = (part: string): boolean => sources.includes(part);
  expect(texts.filter((text) => !text.split('…').every(isWritten))).toEqual([]);
  const written = [...read('src/app/readiness.ts').matchAll(/\[(?:\s*isDatabaseDown\(\)\s*\?\s*\[)?'([^']+ [^']+)'\]/g)].map(
    ([, text = '']) => text,
  );
  expect(written.length).toBeGreaterThan(4);
  expect(written.filter((text) => !texts.includes(text))).toEqual([]);
});

/** A message is the last argument of a call, after its fields. */
function isLogged(message: string): boolean {
  const literal = message.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`[})\\w],\\s*'${literal}',?\\s*\\)`).test(sources);
}

test('the documentation quotes only log lines that the code writes', () => {
  const names = ['docs', 'docs/architecture'].flatMap((folder) =>
    readdirSync(join(import.meta.dirname, '..', folder)).flatMap((name) => (name.endsWith('.md') ? [`${folder}/${name}`] : [])),
  );
  const quoted = names.flatMap((name) => quotedLogLines(read(name)).map((line) => [name, line] as const));
  expect(quoted.filter(([, line]) => !isLogged(line))).toEqual([]);
  const ofRunbooks = quotedLogLines(page.slice(page.indexOf('## Runbooks')));
  expect([quoted.length > 20, ofRunbooks.length > 9]).toEqual([true, true]);
});

test("detects a log line in the documentation that the code doesn't write", () => {
  const runbook = '## Runbooks\n\n1. The log line `journal drain\n   failed` or `call failed`; see `gateway calls --json` and `/readyz`.\n';
  expect(quotedLogLines(runbook)).toEqual(['journal drain failed', 'call failed']);
  expect(quotedLogLines('In `two thousand`.\n\nIt logs `call failed`.')).toEqual(['call failed']);
  expect([isLogged('journal drain failed'), isLogged('call failed')]).toEqual([false, true]);
});
