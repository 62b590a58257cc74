/** The Explore page. It shows one metric of the project's calls by group and time unit, as a chart, a table and CSV. */

import { isUuid } from '../../core/ids.ts';
import { figureHeader, figureRows } from '../../usage/analytics/figure-rows.ts';
import type { CostlyFigure } from '../../usage/analytics/figures.ts';
import { groupNames, isOfAttempts } from '../../usage/analytics/figures-request.ts';
import { groupLabels, metrics } from '../../usage/analytics/metrics.ts';
import type { FiguresReport } from '../../usage/analytics/read-figures.ts';
import { TooManyCalls } from '../../usage/analytics/row-limit.ts';
import { activeFilters, callFilterForm, type FilterChoices, filterQuery } from '../frame/call-filters.ts';
import {
  barChart,
  type ChartOptions,
  card,
  csvLink,
  exactUsd,
  formatTimeIn,
  lineChart,
  notice,
  section,
  selectField,
} from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { ownCallsLine, readFigures, readOwnFigures } from '../frame/own-calls.ts';
import { projectPath } from '../frame/project-path.ts';
import { refusedLine } from '../frame/refused-line.ts';
import { type ConsoleContext, type ConsoleRoute, get, type PageResult } from '../frame/route.ts';
import { rowLimit, tooManyCalls } from '../frame/row-limit.ts';
import { periodQuery, rangePicker, rangeQuery, unitLabels, unitName, unitStart } from '../frame/time-range.ts';
import { type CanaryPageDeps, showCanaries } from './canary-page.ts';
import { formatValue, groupTable, hrefOf, type Names, nameOf } from './group-table.ts';
import { exportRefusals, showRefusals } from './refusal-reasons.ts';
import { readView, refusalGroup, requestedFilter, units, type View } from './view.ts';

export interface ExploreDeps extends CanaryPageDeps {
  readonly readStored: <Result>(query: () => Promise<Result>) => Promise<Result>;
  readonly filterChoices: (context: ConsoleContext) => Promise<FilterChoices>;
  /** Returns end users by the hash that calls contain. Unknown ones are missing. */
  readonly findSubjects: (projectId: string, hashes: readonly string[]) => Promise<Names>;
  readonly findNames: (personIds: readonly string[]) => Promise<Names>;
}

/** A chart has eight colours, so it shows seven groups and sums up the rest as "Others". */
const top = 7;
const exportedGroups = 200;

export function createExploreRoutes(deps: ExploreDeps): readonly ConsoleRoute[] {
  return [
    get('/explore', 'member', (context) => deps.readStored(() => showExplore(deps, context))),
    get('/explore/canaries', 'member', (context) => deps.readStored(() => showCanaries(deps, context))),
    get('/explore.csv', 'member', (context) => deps.readStored(() => exportExplore(deps, context))),
  ];
}

async function showExplore(deps: ExploreDeps, context: ConsoleContext): Promise<PageResult> {
  const { analytics, canaries, filterChoices } = deps;
  const { project, zone } = context;
  const view = readView(context);
  const { range, filter, metric, group, unit, chartUnit } = view;
  if (view.isOfRefusals) {
    const [choices, content] = await Promise.all([filterChoices(context), showRefusals(analytics, context, view)]);
    const head = html`${rangePicker(context, range)}${callFilterForm(context, filter, { choices, fields: controls(view) })}`;
    return { kind: 'page', title: 'Explore', content: html`${head}${activeFilters(context, filter)}${content}` };
  }
  const costly: CostlyFigure[] = metric.costly === undefined ? [] : [metric.costly];
  const request = {
    projectId: project.id,
    from: range.from,
    to: range.to,
    zone,
    filter: requestedFilter(view),
    unit: chartUnit,
    group,
    top,
    rank: metric.rank,
    costly,
    signal: context.signal,
    ...rowLimit(context),
  };
  const { projectId, from, to, signal } = request;
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
  const content = html`${rangePicker(context, range)}
${callFilterForm(context, filter, { choices, fields: controls(view) })}
${activeFilters(context, filter)}${refusedLine(context, refused, { source, key })}${note}${coarser}${ownCallsLine(context, own, hasOwn)}
${report instanceof TooManyCalls ? tooManyCalls(context, range, report) : figures(context, view, report, names)}`;
  const link = html`<a class="button" href="${projectPath(context, '/explore/canaries', rangeQuery(context))}">Canaries</a>`;
  return { kind: 'page', title: 'Explore', content, ...(canaries().length > 0 && { actions: link }) };
}

/** Only groups of end users or people need names for their ids. */
async function readNames(
  { findSubjects, findNames }: Pick<ExploreDeps, 'findSubjects' | 'findNames'>,
  { project }: ConsoleContext,
  { group }: View,
  report: FiguresReport,
): Promise<Names> {
  const found = report.groups.flatMap(({ name }) => name ?? []);
  if (group === 'subject') return findSubjects(project.id, found);
  // The ids come from the calls' `trigger`, which callers can set to anything, so skip everything that isn't a UUID.
  return group === 'person' ? findNames(found.filter(isUuid)) : new Map();
}

function figures(context: ConsoleContext, view: View, report: FiguresReport, names: Names): Html {
  return html`${section(titleOf(view), card(chartOf(context, view, report, names)), { actions: csvLink(context) })}
${report.total.calls === 0 ? '' : groupTable(context, view, report, names)}`;
}

async function exportExplore(deps: ExploreDeps, context: ConsoleContext): Promise<PageResult> {
  const { project, zone } = context;
  const view = readView(context);
  if (view.isOfRefusals) return exportRefusals(deps.analytics, context, view);
  const { range, metric, group, unit } = view;
  const { from, to } = range;
  const costly = ['latency', 'firstChunk', 'failovers'] as const;
  const report = await deps.analytics.figures({
    projectId: project.id,
    from,
    to,
    zone,
    filter: requestedFilter(view),
    unit,
    group,
    top: exportedGroups,
    rank: metric.rank,
    costly,
    signal: context.signal,
  });
  const options = { zone, unit, group, formatStart: (at: number) => unitStart(zone, at), formatUsd: exactUsd };
  return {
    kind: 'csv',
    fileName: `${project.slug}-usage-${formatTimeIn(from, zone, 'date')}.csv`,
    header: figureHeader(options),
    rows: figureRows(withNames(report, await readNames(deps, context, view, report)), options),
  };
}

/** Replaces ids and hashes by names for the CSV export. Unknown end users keep their full hash. */
function withNames(report: FiguresReport, names: Names): FiguresReport {
  return { ...report, groups: report.groups.map((entry) => ({ ...entry, name: names.get(entry.name ?? '') ?? entry.name })) };
}

function controls({ metric, group, isOfRefusals, unit }: View): Html[] {
  return [
    selectField({
      name: 'metric',
      label: 'Metric',
      value: metric.name,
      options: metrics.map(({ name, label }) => ({ value: name, label })),
    }),
    selectField({
      name: 'group',
      label: 'Group by',
      value: isOfRefusals ? refusalGroup : (group ?? 'none'),
      options: [
        ...groupNames.map((name) => ({ value: name, label: groupLabels[name] })),
        { value: refusalGroup, label: 'Refusal reason' },
        { value: 'none', label: 'Nothing' },
      ],
    }),
    selectField({
      name: 'unit',
      label: 'Per',
      value: unit,
      options: [...new Set([...units, unit])].map((name) => ({ value: name, label: unitName(name) })),
    }),
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
    hideTitle: true,
    zone,
    bucketName: unitName(chartUnit),
    wholeNumbers: metric.unit === 'count' || metric.unit === 'tokens',
    series,
    buckets: report.units.map(({ start, end, figures, groups }) => ({
      ...unitLabels(chartUnit, zone, start),
      values: (group === null ? [figures] : groups).map(metric.value),
      href: projectPath(context, '/calls', { ...periodQuery({ from: start, to: end }, zone), ...filterQuery(filter) }),
    })),
    format: (value) => formatValue(metric, value),
  };
  return metric.isAdditive ? barChart(options) : lineChart(options);
}
