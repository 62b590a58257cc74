/**
 * Shows a project's spend and calls in a period, followed by the current state of its ceilings and circuit breakers.
 */

import type { Project } from '../../projects/projects.ts';
import type { ReadBreakers } from '../../routing/shared-breakers.ts';
import type { Analytics } from '../../usage/analytics/analytics.ts';
import { toFilterValue } from '../../usage/analytics/call-filter.ts';
import type { Figures } from '../../usage/analytics/figures.ts';
import { parseRange, type Range, unitFor } from '../../usage/analytics/range.ts';
import type { FiguresReport, GroupFigures } from '../../usage/analytics/read-figures.ts';
import {
  barChart,
  card,
  countOf,
  csvLink,
  formatCompact,
  formatTimeIn,
  formatUsd,
  notice,
  ranking,
  section,
  stats,
  tabs,
  withQuery,
} from '../frame/components.ts';
import { figuresCsv } from '../frame/figures-csv.ts';
import { type Html, html } from '../frame/html.ts';
import { ownCallsLine, readOwnFigures } from '../frame/own-calls.ts';
import { projectPath } from '../frame/project-path.ts';
import { healthRule, type ReadHealth } from '../frame/provider-health.ts';
import { refusedLine } from '../frame/refused-line.ts';
import { type ConsoleContext, type ConsoleRoute, get, type PageResult } from '../frame/route.ts';
import { describePeriod, periodQuery, rangePicker, rangeQuery } from '../frame/time-range.ts';
import { type CeilingsDeps, readCeilings } from './ceilings.ts';
import { createGettingStartedRoutes, emptyProject, type GettingStartedDeps, stepsLeft } from './getting-started.ts';
import { statsOf } from './key-figures.ts';
import { breakerTable, ceilingTable } from './limits.ts';

export interface OverviewDeps extends CeilingsDeps, GettingStartedDeps {
  readonly analytics: Analytics;
  readonly readBreakers: ReadBreakers;
  readonly readHealth: ReadHealth;
  /** Returns the names of the circuit breakers of the project's providers and pool members. */
  readonly breakersOf: (project: Project) => readonly string[];
}

const stackings = ['model', 'source', 'task'] as const;
type Stacking = (typeof stackings)[number];

const stackingLabels: Readonly<Record<Stacking, { readonly one: string; readonly none: string }>> = {
  model: { one: 'Model', none: 'No model' },
  source: { one: 'Application', none: 'No application' },
  task: { one: 'Task', none: 'No task' },
};

const shown = 5;
const costly = ['latency', 'firstChunk', 'failovers'] as const;

export function createOverviewRoutes(deps: OverviewDeps): readonly ConsoleRoute[] {
  return [
    get('/overview', 'member', (context) => deps.readStored(() => showOverview(deps, context), context.project.id)),
    get('/overview.csv', 'member', (context) => deps.readStored(() => exportOverview(deps, context), context.project.id)),
    ...createGettingStartedRoutes(deps),
  ];
}

async function showOverview(deps: OverviewDeps, context: ConsoleContext): Promise<PageResult> {
  const { analytics, listKeys, readBreakers, readHealth, breakersOf } = deps;
  const { project, now, zone, signal } = context;
  const view = readView(context);
  const everything = { projectId: project.id, from: view.range.from, to: view.range.to, signal };
  const selection = { ...everything, filter: { own: 'hide' } };
  if (!(await analytics.hasCalls(project.id))) {
    const first = html`${refusedLine(context, await analytics.refusedCounts(everything))}${await emptyProject(deps, context)}`;
    return { kind: 'page', title: 'Overview', content: first };
  }
  const [current, previous, own, chart, models, applications, tasks, keys, breakers, healthOf, left, refused, refusedBefore] =
    await Promise.all([
      analytics.figures({ ...selection, zone, costly }),
      analytics.figures({ ...selection, ...view.range.previous, zone, costly }),
      readOwnFigures(analytics, { ...selection, zone }),
      analytics.figures({ ...selection, zone, unit: view.unit, group: view.stacking }),
      analytics.top({ ...selection, top: shown }, 'model'),
      analytics.top({ ...selection, top: shown }, 'source'),
      analytics.top({ ...selection, top: shown, isNamed: true }, 'task'),
      listKeys(project.id),
      readBreakers(project.id, breakersOf(project)),
      readHealth(now),
      stepsLeft(deps, context),
      analytics.refusedCounts(selection),
      analytics.refusedCounts({ ...selection, ...view.range.previous }),
    ]);
  const ceilings = await readCeilings(deps, { project, keys, now });
  const content = html`${left}${rangePicker(context, view.range)}
${stats(statsOf(context, current.total, previous.total, { current: refused.calls, previous: refusedBefore.calls }))}
<p class="hint">Changes are against the period before: ${describePeriod(view.range.previous, zone)}.</p>
${ownCallsLine(context, own)}
${unknownPrices(context, current.total)}
${section('Spend', card(spendChart(context, view, chart)), { actions: html`${stackingTabs(context, view.stacking)}${csvLink(context)}` })}
<div class="columns narrow">${topOf(context, 'Models', 'model', models)}${topOf(context, 'Applications', 'source', applications)}${topOf(context, 'Tasks', 'task', tasks)}</div>
${section('Ceilings', ceilingTable(context, ceilings), { hint: 'Forecasts use the average of the last seven days, or of the time since the project was created.' })}
${section('Providers', breakerTable(context, breakers, healthOf), { hint: `${healthRule} Breakers are those of the project, each in the worst state in any process.` })}`;
  return { kind: 'page', title: 'Overview', content };
}

async function exportOverview({ analytics }: OverviewDeps, context: ConsoleContext): Promise<PageResult> {
  const { project, zone } = context;
  const { range, unit, stacking } = readView(context);
  const selection = { projectId: project.id, from: range.from, to: range.to, zone, filter: { own: 'hide' }, signal: context.signal };
  const report = await analytics.figures({ ...selection, unit, group: stacking, top: 100, costly });
  const fileName = `${project.slug}-spend-${formatTimeIn(range.from, zone, 'date')}.csv`;
  return figuresCsv(context, fileName, report, { unit, group: stacking });
}

interface View {
  readonly range: Range;
  readonly unit: ReturnType<typeof unitFor>;
  readonly stacking: Stacking;
}

function readView({ url, zone, now }: ConsoleContext): View {
  const range = parseRange(url.searchParams, { zone, now });
  return { range, unit: unitFor(range), stacking: stackings.find((name) => name === url.searchParams.get('by')) ?? 'model' };
}

function unknownPrices(context: ConsoleContext, { unpriced }: Figures): Html | string {
  if (unpriced === 0) return '';
  const href = projectPath(context, '/calls', { ...rangeQuery(context), price: 'unknown' });
  return notice(
    html`The cost of <a href="${href}">${countOf(unpriced, 'call')}</a> is unknown, because their model has no price. The spend does not include them.`,
    'warning',
  );
}

function spendChart(context: ConsoleContext, { unit, stacking }: View, report: FiguresReport): Html {
  const { zone } = context;
  return barChart({
    title: `Spend by ${unit} and ${stackingLabels[stacking].one.toLowerCase()}`,
    zone,
    unit,
    series: report.groups.map((group) => ({ name: nameOf(group, stacking), ...hrefOf(context, group, stacking) })),
    buckets: report.units.map(({ start, end, groups }) => ({
      start,
      values: groups.map(({ costNanos }) => Number(costNanos)),
      href: projectPath(context, '/calls', periodQuery({ from: start, to: end }, zone)),
    })),
    format: formatUsd,
  });
}

function stackingTabs(context: ConsoleContext, current: Stacking): Html {
  return tabs(
    'Spend by',
    stackings.map((name) => ({ label: stackingLabels[name].one, href: withQuery(context, { by: name }), current: name === current })),
  );
}

function topOf(context: ConsoleContext, title: string, stacking: Stacking, groups: readonly GroupFigures[]): Html {
  const items = groups.map((group) => ({
    label: nameOf(group, stacking),
    costNanos: Number(group.figures.costNanos),
    detail: `${formatCompact(group.figures.calls)} ${group.figures.calls === 1 ? 'call' : 'calls'}`,
    ...hrefOf(context, group, stacking),
  }));
  const all = projectPath(context, '/explore', { ...rangeQuery(context), group: stacking });
  const empty = stacking === 'task' ? 'No call of this period has a task id.' : 'No calls in this period.';
  return section(title, card(ranking(`${title} by spend`, items, empty)), { actions: html`<a href="${all}">All</a>` });
}

function nameOf({ kind, name }: GroupFigures, stacking: Stacking): string {
  return kind === 'others' ? 'Others' : (name ?? stackingLabels[stacking].none);
}

function hrefOf(context: ConsoleContext, { kind, name }: GroupFigures, stacking: Stacking): { href?: string } {
  return kind === 'others' ? {} : { href: projectPath(context, '/calls', { ...rangeQuery(context), [stacking]: toFilterValue(name) }) };
}
