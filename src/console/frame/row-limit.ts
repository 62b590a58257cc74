/**
 * If a page's filters aren't covered by hourly aggregates, its figures have to be computed from call rows. This limits
 * a page to 50,000 of them, unless the person asks to read them all.
 */
import { hourMs } from '../../core/time.ts';
import type { Period } from '../../usage/analytics/range.ts';
import { maxPageRows, TooManyCalls } from '../../usage/analytics/row-limit.ts';
import { notice } from './figures.ts';
import { type Html, html } from './html.ts';
import { pageParameter, withQuery } from './navigation.ts';
import type { ConsoleContext } from './route.ts';
import { describePeriod, periodQuery, rangeParameters } from './time-range.ts';
import { formatCount } from './values.ts';

const parameter = 'rows';

/** Returns the row limit for the queries of a page. There's none if the person has asked to read all calls. */
export function rowLimit({ url }: Pick<ConsoleContext, 'url'>): { readonly maxRows?: number } {
  return url.searchParams.get(parameter) === 'all' ? {} : { maxRows: maxPageRows };
}

/** Returns a TooManyCalls error instead of throwing it, so that the page can show a notice. */
export async function orTooMany<Result>(read: Promise<Result>): Promise<Result | TooManyCalls> {
  return read.catch((error: unknown) => {
    if (error instanceof TooManyCalls) return error;
    throw error;
  });
}

/**
 * Renders a notice in place of figures that would require reading too many call rows. It has links to a shorter period
 * and to the same page without the limit.
 */
export function tooManyCalls(context: Pick<ConsoleContext, 'url' | 'zone'>, { from, to }: Period, { calls }: TooManyCalls): Html {
  const hours = Math.max(1, Math.floor((0.9 * ((to - from) * maxPageRows)) / calls / hourMs));
  const shorter = { from: to - hours * hourMs, to };
  const range = Object.fromEntries(rangeParameters.map((name) => [name, null]));
  const shorterHref = withQuery(context, { ...range, ...periodQuery(shorter, context.zone), [pageParameter]: null });
  return notice(
    html`There are no precomputed totals for these filters and this period, so ${formatCount(calls)} calls would have to be read. You can show <a href="${shorterHref}">${describePeriod(shorter, context.zone)}</a>, choose fewer filters, or <a href="${withQuery(context, { [parameter]: 'all' })}">read them all</a>, which takes longer.`,
    'warning',
    'Too many calls',
  );
}
