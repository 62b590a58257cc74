/** The Explore page. It shows one metric of the project's calls by group and time unit, as a chart, a table and CSV. */

import { isUuid } from '../../core/ids.ts';
import type { Queries } from '../../db/database.ts';
import { findSubjects } from '../../memory/conversations/find-subjects.ts';
import { findPersonNames } from '../../people/person-names.ts';
import type { CostlyFigure } from '../../usage/analytics/figures.ts';
import { isOfAttempts } from '../../usage/analytics/figures-request.ts';
import { groupLabels, metrics } from '../../usage/analytics/metrics.ts';
import type { FiguresReport } from '../../usage/analytics/read-figures.ts';
import { TooManyCalls } from '../../usage/analytics/row-limit.ts';
import { activeFilters, callFilterForm, type FilterChoices, filterQuery } from '../frame/call-filters.ts';
import {
  barChart,
  type ChartOptions,
  card,
  csvLink,
  formatTimeIn,
  lineChart,
  notice,
  section,
  selectField,
  toOptions,
} from '../frame/components.ts';
import { figuresCsv } from '../frame/figures-csv.ts';
import { type Html, html } from '../frame/html.ts';
import { ownCallsLine, readFigures, readOwnFigures } from '../frame/own-calls.ts';
import { projectPath } from '../frame/project-path.ts';
import { refusedLine } from '../frame/refused-line.ts';
import { type ConsoleContext, type ConsoleRoute, get, type PageResult } from '../frame/route.ts';
import { rowLimit, tooManyCalls } from '../frame/row-limit.ts';
import { periodQuery, rangePicker, rangeQuery, unitName } from '../frame/time-range.ts';
import { type CanaryPageDeps, showCanaries } from './canary-page.ts';
import { formatValue, groupTable, hrefOf, type Names, nameOf } from './group-table.ts';
import { exportRefusals, showRefusals } from './refusal-reasons.ts';
import { readView, refusalGroup, requestedFilter, units, type View } from './view.ts';

export interface ExploreDeps extends CanaryPageDeps {
  readonly queries: Queries;
  readonly readStored: <Result>(query: () => Promise<Result>, projectId: string) => Promise<Result>;
  readonly filterChoices: (context: ConsoleContext) => Promise<FilterChoices>;
}

/** A chart has eight colours, so it shows seven groups and sums up the rest as "Others". */
const top = 7;
const exportedGroups = 200;

export function createExploreRoutes(deps: ExploreDeps): readonly ConsoleRoute[] {
  return [
    get('/explore', 'member', (context) => deps.readStored(() => showExplore(deps, context), context.project.id)),
    get('/explore/canaries', 'member', (context) => deps.readStored(() => showCanaries(deps, context), context.project.id)),
    get('/explore.csv', 'member', (context) => deps.readStored(() => exportExplore(deps, context), context.project.id)),
  ];
}

async function showExplore(deps: ExploreDeps, context: ConsoleContext): Promise<PageResult> {
  const { analytics, canaries, filterChoices } = deps;
  const view = readView(context);
  const { range, filter, metric, group, unit, chartUnit } = view;
  if (view.isOfRefusals) {
    const [choices, content] = await Promise.all([filterChoices(context), showRefusals(analytics, context, view)]);
    return { kind: 'page', title: 'Explore', content: html`${head(context, view, choices)}${content}` };
  }
  const selection = selectionOf(context, view);
  const costly: CostlyFigure[] = metric.costly === undefined ? [] : [metric.costly];
  const request = { ...selection, unit: chartUnit, top, costly, ...rowLimit(context) };
  const { projectId, from, to, signal } = selection;
  const { source, key } = filter;
  const [{ report, hasOwn }, own, choices, refused] = await Promise.all([
    readFigures(analytics, request),
    readOwnFigures(analytics, request),
    filterChoices(context),
    analytics.refusedCounts({ projectId, from, to, signal, source, key }),
  ]);
  const ofAttempts = isOfAttempts(group);
  const note =
    ofAttempts && metric.callsOnly
      ? notice('This metric does not exist for attempts, because only calls use the cache. Choose another group.', 'warning')
      : ofAttempts
        ? html`<p class="hint">These figures count attempts instead of calls. A call with a failover has several attempts.</p>`
        : group === 'person'
          ? html`<p class="hint">These figures are about the playground, because applications make all other calls.</p>`
          : '';
  const names = report instanceof TooManyCalls ? new Map() : await readNames(deps, context, view, report);
  const coarser =
    unit === chartUnit
      ? ''
      : html`<p class="hint">This period is too long for a chart per ${unit}, so the chart shows figures per ${chartUnit}. The CSV has figures per ${unit}.</p>`;
  const content = html`${head(context, view, choices)}${refusedLine(context, refused, { source, key })}${note}${coarser}${ownCallsLine(context, own, hasOwn)}
${report instanceof TooManyCalls ? tooManyCalls(context, range, report) : figures(context, view, report, names)}`;
  const link = html`<a class="button" href="${projectPath(context, '/explore/canaries', rangeQuery(context))}">Canaries</a>`;
  return { kind: 'page', title: 'Explore', content, ...(canaries().length > 0 && { actions: link }) };
}

function head(context: ConsoleContext, view: View, choices: FilterChoices): Html {
  const { range, filter } = view;
  return html`${rangePicker(context, range)}${callFilterForm(context, filter, { choices, fields: controls(view) })}${activeFilters(context, filter)}`;
}

/**
 * Finds display names for the groups. Only groups of end users and people need them, because all others are shown by
 * their own names.
 */
async function readNames({ queries }: ExploreDeps, { project }: ConsoleContext, { group }: View, report: FiguresReport): Promise<Names> {
  const found = report.groups.flatMap(({ name }) => name ?? []);
  if (group === 'subject') return findSubjects(queries, project.id, found);
  // The ids come from the calls' `trigger`, which callers can set to anything, so skip everything that isn't a UUID.
  return group === 'person' ? findPersonNames(queries, found.filter(isUuid)) : new Map();
}

function figures(context: ConsoleContext, view: View, report: FiguresReport, names: Names): Html {
  return html`${section(titleOf(view), card(chartOf(context, view, report, names)), { actions: csvLink(context) })}
${report.total.calls === 0 ? '' : groupTable(context, view, report, names)}`;
}

function selectionOf({ project, zone, signal }: ConsoleContext, view: View) {
  const { from, to } = view.range;
  return { projectId: project.id, from, to, zone, filter: requestedFilter(view), group: view.group, rank: view.metric.rank, signal };
}

async function exportExplore(deps: ExploreDeps, context: ConsoleContext): Promise<PageResult> {
  const { project, zone } = context;
  const view = readView(context);
  if (view.isOfRefusals) return exportRefusals(deps.analytics, context, view);
  const { range, group, unit } = view;
  const report = await deps.analytics.figures({
    ...selectionOf(context, view),
    unit,
    top: exportedGroups,
    costly: ['latency', 'firstChunk', 'failovers'],
  });
  const named = withNames(report, await readNames(deps, context, view, report));
  return figuresCsv(context, `${project.slug}-usage-${formatTimeIn(range.from, zone, 'date')}.csv`, named, { unit, group });
}

/** Replaces ids and hashes with names for the CSV export. Unknown end users keep their full hash. */
function withNames(report: FiguresReport, names: Names): FiguresReport {
  return { ...report, groups: report.groups.map((entry) => ({ ...entry, name: names.get(entry.name ?? '') ?? entry.name })) };
}

function controls({ metric, group, isOfRefusals, unit }: View): Html[] {
  const select = (name: string, label: string, value: string, labels: Readonly<Record<string, string>>): Html =>
    selectField({ name, label, value, options: toOptions(labels) });
  return [
    select('metric', 'Metric', metric.name, Object.fromEntries(metrics.map(({ name, label }) => [name, label]))),
    select('group', 'Group by', isOfRefusals ? refusalGroup : (group ?? 'none'), {
      ...groupLabels,
      [refusalGroup]: 'Refusal reason',
      none: 'Nothing',
    }),
    select('unit', 'Per', unit, Object.fromEntries([...units, unit].map((name) => [name, unitName(name)]))),
  ];
}

function titleOf({ metric, group, chartUnit }: View): string {
  return `${metric.label} per ${chartUnit}${group === null ? '' : `, by ${groupLabels[group].toLowerCase()}`}`;
}

function chartOf(context: ConsoleContext, view: View, report: FiguresReport, names: Names): Html {
  const { zone } = context;
  const { metric, group, chartUnit, filter } = view;
  const series =
    group === null
      ? [{ name: metric.label }]
      : report.groups.map((entry) => ({ name: nameOf(view, entry, names), ...hrefOf(context, view, entry) }));
  const options: ChartOptions = {
    title: titleOf(view),
    zone,
    unit: chartUnit,
    wholeNumbers: metric.unit === 'count' || metric.unit === 'tokens',
    series,
    buckets: report.units.map(({ start, end, figures, groups }) => ({
      start,
      values: (group === null ? [figures] : groups).map(metric.value),
      href: projectPath(context, '/calls', { ...periodQuery({ from: start, to: end }, zone), ...filterQuery(filter) }),
    })),
    format: (value) => formatValue(metric, value),
  };
  return metric.isAdditive ? barChart(options) : lineChart(options);
}
