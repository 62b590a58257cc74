/** The table below the chart of the Explore page, with the totals of each group. */
import { playgroundApplication } from '../../core/call.ts';
import { toFilterValue } from '../../usage/analytics/call-filter.ts';
import type { Figures } from '../../usage/analytics/figures.ts';
import { type Group, isOfAttempts } from '../../usage/analytics/figures-request.ts';
import { groupLabels, type Metric, share } from '../../usage/analytics/metrics.ts';
import type { FiguresReport, GroupFigures } from '../../usage/analytics/read-figures.ts';
import { filterQuery } from '../frame/call-filters.ts';
import { formatCompact, formatCount, formatDuration, formatPercent, formatUsd, nothing, table, total } from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext } from '../frame/route.ts';
import { rangeQuery } from '../frame/time-range.ts';
import type { View } from './view.ts';

export function groupTable(context: ConsoleContext, view: View, report: FiguresReport, names: Names): Html {
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
    showCaption: true,
    rows,
    empty: 'No calls in this period match the filters.',
    columns: [
      {
        label: group === null ? 'Calls' : groupLabels[group],
        grow: true,
        value: (entry) => {
          const { href } = group === null ? { href: undefined } : hrefOf(context, view, entry);
          const name = group === null ? 'All calls' : nameOf(view, entry, names);
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
      { label: isOfAttempts(group) ? 'Attempts' : 'Calls', align: 'end', value: ({ figures }) => formatCount(figures.calls) },
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

/** Display names by the id of a person or the hash of an end user. */
export type Names = ReadonlyMap<string, string>;

/**
 * Labels for groups without a value. Attempts have no model if they were recorded by a version that didn't store it
 * yet.
 */
const withoutName: Partial<Readonly<Record<Group, string>>> = {
  attempted: 'Not recorded before an update',
  subject: 'No end user',
  person: 'Not a person',
};

export function nameOf({ group }: Pick<View, 'group'>, { kind, name }: GroupFigures, names: Names): string {
  if (kind === 'others') return 'Others';
  if (name === null) return (group && withoutName[group]) ?? 'None';
  if (group === 'subject') return names.get(name) ?? `${name.slice(0, 16)}…`;
  return names.get(name) ?? name;
}

/** Links to the calls of a group, if there's a filter of the call list for it. */
export function hrefOf(context: ConsoleContext, { group, filter }: View, { kind, name }: GroupFigures): { href?: string } {
  if (kind === 'others' || group === null || group === 'provider') return {};
  // The call list has no filter for calls without an end user or without an attempted model, so don't link to it.
  if (name === null && (group === 'subject' || group === 'attempted')) return {};
  const application = group === 'person' ? { source: playgroundApplication } : {};
  const query = { ...rangeQuery(context), ...filterQuery(filter), ...application, [group]: toFilterValue(name) };
  return { href: projectPath(context, '/calls', query) };
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
