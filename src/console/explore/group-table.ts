/** The table below the chart, with the totals of each group. */
import { toFilterValue } from '../../usage/analytics/call-filter.ts';
import type { Figures } from '../../usage/analytics/figures.ts';
import { groupLabels, type Metric, share } from '../../usage/analytics/metrics.ts';
import type { FiguresReport, GroupFigures } from '../../usage/analytics/read-figures.ts';
import { filterQuery } from '../frame/call-filters.ts';
import { formatCompact, formatCount, formatDuration, formatPercent, formatUsd, nothing, table, total } from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext } from '../frame/route.ts';
import { rangeQuery } from '../frame/time-range.ts';
import type { View } from './view.ts';

export function groupTable(context: ConsoleContext, view: View, report: FiguresReport): Html {
  const { metric, group } = view;
  const whole = metric.value(report.total);
  const isPlain = metric.unit === 'nanos' || metric.name === 'calls' || metric.name === 'errors';
  const rows: readonly GroupFigures[] = group === null ? [{ kind: 'group', name: 'All calls', figures: report.total }] : report.groups;
  const figureOf = (figures: Figures): Html | string => {
    const value = metric.value(figures);
    if (metric.unit === 'nanos') return total(figures.costNanos);
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
            ? total(figures.costNanos)
            : html`${total(figures.costNanos)} <span class="muted" title="${figures.unpriced} calls with unknown cost">+ ?</span>`,
      },
    ],
    footer: [
      'Total',
      ...(isPlain ? [] : [figureOf(report.total)]),
      ...(metric.isAdditive ? [''] : []),
      formatCount(report.total.calls),
      formatCount(report.total.errors),
      total(report.total.costNanos),
    ],
  });
}

export function nameOf({ kind, name }: GroupFigures): string {
  return kind === 'others' ? 'Others' : (name ?? 'None');
}

/** Links to the calls of a group, if there is a filter for it. */
export function hrefOf(context: ConsoleContext, { group, filter }: View, { kind, name }: GroupFigures): { href?: string } {
  if (kind === 'others' || group === null || group === 'provider') return {};
  return { href: projectPath(context, '/calls', { ...rangeQuery(context), ...filterQuery(filter), [group]: toFilterValue(name) }) };
}

export function formatValue({ unit }: Metric, value: number): string {
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
