/** Pages whose filters have no sums: they read up to 50,000 calls, and more when asked to. */
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

/** For requests of this page. */
export function rowLimit({ url }: Pick<ConsoleContext, 'url'>): { readonly maxRows?: number } {
  return url.searchParams.get(parameter) === 'all' ? {} : { maxRows: maxPageRows };
}

/** What `read` resolves with, or that it would have to read too many calls. */
export async function orTooMany<Result>(read: Promise<Result>): Promise<Result | TooManyCalls> {
  return read.catch((error: unknown) => {
    if (error instanceof TooManyCalls) return error;
    throw error;
  });
}

/** In place of the figures: links to a shorter range, and to this one with all its calls. */
export function tooManyCalls(context: Pick<ConsoleContext, 'url' | 'zone'>, { from, to }: Period, { calls }: TooManyCalls): Html {
  const hours = Math.max(1, Math.floor((0.9 * ((to - from) * maxPageRows)) / calls / hourMs));
  const shorter = { from: to - hours * hourMs, to };
  const range = Object.fromEntries(rangeParameters.map((name) => [name, null]));
  const shorterHref = withQuery(context, { ...range, ...periodQuery(shorter, context.zone), [pageParameter]: null });
  return notice(
    html`There are no sums for this combination and period, so that ${formatCount(calls)} calls would have to be read. Show <a href="${shorterHref}">${describePeriod(shorter, context.zone)}</a>, choose fewer filters, or <a href="${withQuery(context, { [parameter]: 'all' })}">read them all</a>, which takes longer.`,
    'warning',
    'Many calls',
  );
}
