/**
 * Shows refused calls by reason and time on the Explore page.
 */
import type { Analytics } from '../../usage/analytics/analytics.ts';
import { share } from '../../usage/analytics/metrics.ts';
import { splitIntoUnits } from '../../usage/analytics/range.ts';
import { reasonLabels } from '../../usage/refusals/explain-refusal.ts';
import type { RefusalsOfUnit } from '../../usage/refusals/read-refusals.ts';
import { barChart, card, csvLink, formatCount, formatPercent, formatTimeIn, section, table } from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext, CsvValue, PageResult } from '../frame/route.ts';
import { periodQuery, rangeQuery, unitStart } from '../frame/time-range.ts';
import type { View } from './view.ts';

type Reason = RefusalsOfUnit['reason'];

interface Refusals {
  readonly units: readonly { readonly start: number; readonly end: number; readonly calls: ReadonlyMap<Reason, number> }[];
  readonly reasons: readonly { readonly reason: Reason; readonly calls: number }[];
}

function appliedFilter({ filter: { source, key } }: View): Record<string, string> {
  return { ...(source !== undefined && { source }), ...(key !== undefined && { key }) };
}

async function readRefusals(
  analytics: Pick<Analytics, 'refusedByUnit'>,
  { project, zone, signal }: ConsoleContext,
  view: View,
  unit: View['unit'],
): Promise<Refusals> {
  const { from, to } = view.range;
  const starts = splitIntoUnits(unit, zone, view.range);
  const rows = await analytics.refusedByUnit({ projectId: project.id, from, to, starts, signal, ...appliedFilter(view) });
  const sums = new Map<Reason, number>();
  for (const { reason, calls } of rows) sums.set(reason, (sums.get(reason) ?? 0) + calls);
  return {
    units: starts.map((start, index) => ({
      start,
      end: starts[index + 1] ?? to,
      calls: new Map(rows.flatMap((row) => (row.unit === index ? [[row.reason, row.calls] as const] : []))),
    })),
    reasons: [...sums].map(([reason, calls]) => ({ reason, calls })).sort((left, right) => right.calls - left.calls),
  };
}

/** The chart has eight colours, so it shows the eight most frequent reasons. The table lists all of them. */
const chartReasons = 8;

export async function showRefusals(analytics: Pick<Analytics, 'refusedByUnit'>, context: ConsoleContext, view: View): Promise<Html> {
  const { zone } = context;
  const { chartUnit } = view;
  const { units, reasons } = await readRefusals(analytics, context, view, chartUnit);
  const shown = reasons.slice(0, chartReasons);
  const hrefOf = (reason: Reason): string =>
    projectPath(context, '/calls/refused', { ...rangeQuery(context), ...appliedFilter(view), reason });
  const title = `Refused calls per ${chartUnit}, by reason`;
  const chart = barChart({
    title,
    zone,
    unit: chartUnit,
    wholeNumbers: true,
    series: shown.map(({ reason }) => ({ name: reasonLabels[reason], href: hrefOf(reason) })),
    buckets: units.map(({ start, end, calls }) => ({
      start,
      values: shown.map(({ reason }) => calls.get(reason) ?? 0),
      href: projectPath(context, '/calls/refused', { ...periodQuery({ from: start, to: end }, zone), ...appliedFilter(view) }),
    })),
    format: formatCount,
  });
  const all = reasons.reduce((sum, { calls }) => sum + calls, 0);
  return html`<p class="hint">Refused calls reached no model, so they have no cost and no latency. Only the filters for the application and the key apply to them.</p>
${section(title, card(chart), { actions: csvLink(context) })}
${table<Refusals['reasons'][number]>({
  caption: 'Totals of the period',
  showCaption: true,
  rows: reasons,
  empty: 'The gateway refused no call in this period.',
  columns: [
    { label: 'Refusal reason', grow: true, value: ({ reason }) => html`<a href="${hrefOf(reason)}">${reasonLabels[reason]}</a>` },
    { label: 'Share', align: 'end', value: ({ calls }) => formatPercent(share(calls, all)) },
    { label: 'Refused calls', align: 'end', value: ({ calls }) => formatCount(calls) },
  ],
  footer: ['Total', '', formatCount(all)],
})}`;
}

export async function exportRefusals(
  analytics: Pick<Analytics, 'refusedByUnit'>,
  context: ConsoleContext,
  view: View,
): Promise<PageResult> {
  const { project, zone } = context;
  const { units } = await readRefusals(analytics, context, view, view.unit);
  const rows = units.flatMap(({ start, calls }) =>
    [...calls].map(([reason, count]): CsvValue[] => [unitStart(zone, start), reason, count]),
  );
  return {
    kind: 'csv',
    fileName: `${project.slug}-refused-${formatTimeIn(view.range.from, zone, 'date')}.csv`,
    header: [`${view.unit} (${zone})`, 'reason', 'refused_calls'],
    rows,
  };
}
