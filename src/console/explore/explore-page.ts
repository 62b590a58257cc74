/** Explore: one metric of the project's calls by group and unit of time, as chart, table and CSV. */

import { gatewayError } from '../../core/errors.ts';
import { type CalendarUnit, splitRange } from '../../core/time-zone.ts';
import type { Analytics } from '../../usage/analytics/analytics.ts';
import { type CallFilter, noValue, parseCallFilter } from '../../usage/analytics/call-filter.ts';
import { figureHeader, figureRows } from '../../usage/analytics/figure-rows.ts';
import type { CostlyFigure, Figures } from '../../usage/analytics/figures.ts';
import { groupLabels, type Metric, metrics, share } from '../../usage/analytics/metrics.ts';
import { maxChartUnits, parseRange, type Range, unitFor } from '../../usage/analytics/range.ts';
import { type FiguresReport, type Group, type GroupFigures, groupNames } from '../../usage/analytics/read-figures.ts';
import { activeFilters, callFilterForm, type FilterChoices, filterQuery } from '../frame/call-filters.ts';
import {
  barChart,
  type ChartOptions,
  card,
  csvLink,
  exactUsd,
  formatCompact,
  formatCount,
  formatDuration,
  formatPercent,
  formatTimeIn,
  formatUsd,
  lineChart,
  nothing,
  notice,
  section,
  selectField,
  table,
  usd,
} from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext, ConsoleRoute, PageResult } from '../frame/route.ts';
import { periodQuery, rangePicker, rangeQuery, unitLabels, unitName } from '../frame/time-range.ts';

export interface ExploreDeps {
  readonly analytics: Pick<Analytics, 'figures'>;
  readonly readStored: <Result>(query: () => Promise<Result>) => Promise<Result>;
  readonly filterChoices: (context: ConsoleContext) => Promise<FilterChoices>;
}

const units: readonly CalendarUnit[] = ['hour', 'day', 'week', 'month'];
/** Groups of a chart have eight colours. */
const top = 7;
const exportedGroups = 200;

export function createExploreRoutes(deps: ExploreDeps): readonly ConsoleRoute[] {
  return [
    { method: 'get', path: '/explore', access: 'member', handle: (context) => deps.readStored(() => showExplore(deps, context)) },
    { method: 'get', path: '/explore.csv', access: 'member', handle: (context) => deps.readStored(() => exportExplore(deps, context)) },
  ];
}

interface View {
  readonly range: Range;
  readonly filter: CallFilter;
  readonly metric: Metric;
  readonly group: Group | null;
  /** As requested; a page shows `chartUnit` when these would be too many. */
  readonly unit: CalendarUnit;
  readonly chartUnit: CalendarUnit;
}

function readView({ url: { searchParams }, zone, now }: ConsoleContext): View {
  const range = parseRange(searchParams, { zone, now });
  const metricName = searchParams.get('metric') || metrics[0].name;
  const metric = metrics.find(({ name }) => name === metricName);
  if (!metric) throw gatewayError('bad_request', { message: `metric: must be one of ${metrics.map(({ name }) => name).join(', ')}` });
  const groupName = searchParams.get('group') || 'model';
  const group = groupName === 'none' ? null : groupNames.find((name) => name === groupName);
  if (group === undefined) throw gatewayError('bad_request', { message: `group: must be none, or one of ${groupNames.join(', ')}` });
  const unitText = searchParams.get('unit') || unitFor(range);
  const unit = [...units, 'minute' as const].find((name) => name === unitText);
  if (!unit) throw gatewayError('bad_request', { message: `unit: must be one of ${units.join(', ')}` });
  const fits = splitRange(unit, zone, range, maxChartUnits) !== null;
  return { range, filter: parseCallFilter(searchParams), metric, group, unit, chartUnit: fits ? unit : unitFor(range) };
}

async function showExplore({ analytics, filterChoices }: ExploreDeps, context: ConsoleContext): Promise<PageResult> {
  const { project, zone } = context;
  const view = readView(context);
  const { range, filter, metric, group, unit, chartUnit } = view;
  const costly: CostlyFigure[] = metric.costly === undefined ? [] : [metric.costly];
  const request = {
    projectId: project.id,
    from: range.from,
    to: range.to,
    zone,
    filter,
    unit: chartUnit,
    group,
    top,
    rank: metric.rank,
    costly,
  };
  const [report, choices] = await Promise.all([analytics.figures(request), filterChoices(context)]);
  const ofAttempts = group === 'provider';
  const note =
    ofAttempts && metric.callsOnly
      ? notice('Attempts have no cache: this metric is about calls. Choose another group.', 'warning')
      : ofAttempts
        ? html`<p class="hint">Grouped by provider, the figures are those of attempts: a call with a failover has several.</p>`
        : '';
  const coarser =
    unit === chartUnit
      ? ''
      : html`<p class="hint">A ${unit} is too short for a chart of this period, which shows each ${chartUnit}. The CSV has every ${unit}.</p>`;
  const content = html`${rangePicker(context, range)}
${callFilterForm(context, filter, { choices, fields: controls(view) })}
${activeFilters(context, filter)}${note}${coarser}
${section(titleOf(view), card(chartOf(context, view, report)), { actions: csvLink(context) })}
${groupTable(context, view, report)}`;
  return { kind: 'page', title: 'Explore', content };
}

async function exportExplore({ analytics }: ExploreDeps, context: ConsoleContext): Promise<PageResult> {
  const { project, zone } = context;
  const { range, filter, metric, group, unit } = readView(context);
  const { from, to } = range;
  const costly = ['latency', 'firstChunk', 'failovers'] as const;
  const report = await analytics.figures({
    projectId: project.id,
    from,
    to,
    zone,
    filter,
    unit,
    group,
    top: exportedGroups,
    rank: metric.rank,
    costly,
  });
  const options = { zone, unit, group, formatStart: (at: number) => formatTimeIn(at, zone, 'minute'), formatUsd: exactUsd };
  return {
    kind: 'csv',
    fileName: `${project.slug}-usage-${formatTimeIn(from, zone, 'date')}.csv`,
    header: figureHeader(options),
    rows: figureRows(report, options),
  };
}

function controls({ metric, group, unit }: View): Html[] {
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
      value: group ?? 'none',
      options: [...groupNames.map((name) => ({ value: name, label: groupLabels[name] })), { value: 'none', label: 'Nothing' }],
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

function chartOf(context: ConsoleContext, view: View, report: FiguresReport): Html {
  const { zone } = context;
  const { metric, group, chartUnit, filter } = view;
  const series =
    group === null ? [{ name: metric.label }] : report.groups.map((entry) => ({ name: nameOf(entry), ...hrefOf(context, view, entry) }));
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

function groupTable(context: ConsoleContext, view: View, report: FiguresReport): Html {
  const { metric, group } = view;
  const whole = metric.value(report.total);
  const isPlain = metric.unit === 'nanos' || metric.name === 'calls' || metric.name === 'errors';
  const rows: readonly GroupFigures[] = group === null ? [{ kind: 'group', name: 'All calls', figures: report.total }] : report.groups;
  const figureOf = (figures: Figures): Html | string => {
    const value = metric.value(figures);
    if (metric.unit === 'nanos') return usd(figures.costNanos);
    return value === null ? nothing : formatValue(metric, value);
  };
  return table<GroupFigures>({
    caption: 'Totals of the period',
    rows,
    empty: 'No calls in this period match the filters.',
    columns: [
      {
        label: group === null ? 'Calls' : groupLabels[group],
        grow: true,
        value: (entry) => {
          const { href } = group === null ? { href: undefined } : hrefOf(context, view, entry);
          const name = group === null ? 'All calls' : nameOf(entry);
          return href === undefined ? name : html`<a href="${href}">${name}</a>`;
        },
      },
      ...(isPlain ? [] : [{ label: metric.label, align: 'end' as const, value: ({ figures }: GroupFigures) => figureOf(figures) }]),
      ...(metric.isAdditive
        ? [
            {
              label: 'Share',
              align: 'end' as const,
              value: ({ figures }: GroupFigures) => formatPercent(share(metric.value(figures) ?? 0, whole ?? 0)),
            },
          ]
        : []),
      { label: group === 'provider' ? 'Attempts' : 'Calls', align: 'end', value: ({ figures }) => formatCount(figures.calls) },
      { label: 'Errors', align: 'end', value: ({ figures }) => formatCount(figures.errors) },
      {
        label: 'Cost',
        align: 'end',
        value: ({ figures }) =>
          figures.unpriced === 0
            ? usd(figures.costNanos)
            : html`${usd(figures.costNanos)} <span class="muted" title="${figures.unpriced} of unknown cost">+ ?</span>`,
      },
    ],
    footer: [
      'Total',
      ...(isPlain ? [] : [figureOf(report.total)]),
      ...(metric.isAdditive ? [''] : []),
      formatCount(report.total.calls),
      formatCount(report.total.errors),
      usd(report.total.costNanos),
    ],
  });
}

function nameOf({ kind, name }: GroupFigures): string {
  return kind === 'others' ? 'Others' : (name ?? 'None');
}

/** The calls of a group. */
function hrefOf(context: ConsoleContext, { group, filter }: View, { kind, name }: GroupFigures): { href?: string } {
  if (kind === 'others' || group === null || group === 'provider') return {};
  return { href: projectPath(context, '/calls', { ...rangeQuery(context), ...filterQuery(filter), [group]: name ?? noValue }) };
}

function formatValue({ unit }: Metric, value: number): string {
  switch (unit) {
    case 'nanos':
      return formatUsd(Math.round(value));
    case 'count':
    case 'tokens':
      return value < 10_000 ? formatCount(Math.round(value)) : formatCompact(value);
    case 'ms':
      return formatDuration(value);
    case 'share':
      return formatPercent(value);
  }
}
