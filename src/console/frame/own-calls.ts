/**
 * Excludes the gateway's own calls from the figures, and shows their cost on a separate line. If none of the
 * precomputed totals can tell them apart, we have to read call rows. If there are too many rows, we include the
 * gateway's own calls in the figures.
 */
import { memoryApplication } from '../../core/call.ts';
import type { Analytics } from '../../usage/analytics/analytics.ts';
import { onlyOwnCalls } from '../../usage/analytics/call-filter.ts';
import type { Figures } from '../../usage/analytics/figures.ts';
import type { FiguresRequest } from '../../usage/analytics/figures-request.ts';
import type { FiguresReport } from '../../usage/analytics/read-figures.ts';
import { TooManyCalls } from '../../usage/analytics/row-limit.ts';
import { type Html, html } from './html.ts';
import { pageParameter, withQuery } from './navigation.ts';
import { projectPath } from './project-path.ts';
import type { ConsoleContext } from './route.ts';
import { orTooMany } from './row-limit.ts';
import { rangeQuery } from './time-range.ts';
import { formatCount, totalUsd } from './values.ts';

type FigureReader = Pick<Analytics, 'figures'>;

export interface ReportedFigures {
  readonly report: FiguresReport | TooManyCalls;
  /**
   * True if the filter hides the gateway's own calls, but the figures include them because it would have taken too long
   * to leave them out.
   */
  readonly hasOwn: boolean;
}

export async function readFigures(analytics: FigureReader, request: FiguresRequest): Promise<ReportedFigures> {
  const report = await orTooMany(analytics.figures(request));
  const { own, ...filter } = request.filter ?? {};
  if (!(report instanceof TooManyCalls) || own !== 'hide') return { report, hasOwn: false };
  const whole = await orTooMany(analytics.figures({ ...request, filter }));
  return { report: whole, hasOwn: !(whole instanceof TooManyCalls) };
}

/**
 * Reads the figures of the gateway's own calls that the filter hides. Returns null if the filter doesn't hide them, or
 * if we'd have to read too many call rows.
 */
export async function readOwnFigures(analytics: FigureReader, request: FiguresRequest): Promise<Figures | null> {
  const { filter = {}, unit: _unit, group: _group, costly: _costly, ...selection } = request;
  const own = filter.own === 'hide' ? onlyOwnCalls(filter) : null;
  if (own === null) return null;
  const report = await orTooMany(analytics.figures({ ...selection, filter: own }));
  return report instanceof TooManyCalls ? null : report.total;
}

/** Renders a line with the cost of the hidden calls, or an empty string if there are none. */
export function ownCallsLine(context: ConsoleContext, own: Figures | null, hasOwn = false): Html | string {
  const showHref = withQuery(context, { own: 'show', [pageParameter]: null });
  if (hasOwn)
    return html`<p class="hint">These totals include the gateway’s own calls for memory, because there are no precomputed totals without them for these filters.</p>`;
  if (own === null || own.calls === 0) return '';
  const href = context.url.pathname.endsWith('/overview')
    ? projectPath(context, '/calls', { ...rangeQuery(context), source: memoryApplication })
    : showHref;
  return html`<p class="hint">Not included: <a href="${href}">${formatCount(own.calls)} of the gateway’s own calls</a> for memory, which cost ${totalUsd(own.costNanos)}.</p>`;
}
