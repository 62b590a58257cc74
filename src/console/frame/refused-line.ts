/**
 * Renders a line for usage pages with the number of refused calls, which aren't part of any other figures.
 */
import type { RefusalCounts, RefusalFilter } from '../../usage/refusals/read-refusals.ts';
import { notice } from './figures.ts';
import { type Html, html } from './html.ts';
import { projectPath } from './project-path.ts';
import type { ConsoleContext } from './route.ts';
import { rangeQuery } from './time-range.ts';
import { countOf, formatCount } from './values.ts';

/** Renders nothing if no calls were refused. `filter` contains the page's filters that apply to refused calls. */
export function refusedLine(context: ConsoleContext, { calls, recorded }: RefusalCounts, filter: RefusalFilter = {}): Html | string {
  if (calls === 0) return '';
  const href = projectPath(context, '/calls/refused', { ...rangeQuery(context), ...filter });
  const missing = calls - recorded;
  const more = missing > 0 ? ` ${formatCount(missing)} of them ${missing === 1 ? 'was' : 'were'} counted but not recorded.` : '';
  return notice(
    html`The gateway also refused <a href="${href}">${countOf(calls, 'call')}</a> in this period before a model was called, not counted in the calls and errors below.${more}`,
  );
}
