/**
 * Limits pages to 50,000 call rows if there are no hourly aggregates for their filters. People can load the page
 * without this limit if they want to.
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

/** Returns the limit for queries of the page. Absent if the person has asked for all calls. */
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
 * Replaces the figures if they'd take too many call rows. Links to a shorter period, and to the same page without the
 * limit.
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
