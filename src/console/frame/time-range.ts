/** Renders the picker for the time range of a view, links that keep the range, and labels for units of time. */
import { addDays, type CalendarUnit, createOncePerZone, offsetOfRepeatedTime, startOf } from '../../core/time-zone.ts';
import { formatLocal, type Period, type Range, type RangePreset } from '../../usage/analytics/range.ts';
import { type Html, html } from './html.ts';
import { pageParameter, withQuery } from './navigation.ts';
import type { ConsoleContext } from './route.ts';
import { formatTimeIn } from './values.ts';

export const rangeParameters = ['range', 'from', 'to'] as const;

const presetLabels: Readonly<Record<Exclude<RangePreset, 'custom'>, readonly [short: string, full: string]>> = {
  '1h': ['1 h', 'Last hour'],
  '24h': ['24 h', 'Last 24 hours'],
  '7d': ['7 d', 'Last 7 days'],
  '30d': ['30 d', 'Last 30 days'],
  month: ['Month', 'This month'],
};

/** Renders links for the usual ranges, a form for any other, and the chosen period with its time zone. */
export function rangePicker(context: Pick<ConsoleContext, 'url' | 'zone'>, range: Range): Html {
  const { url, zone } = context;
  const links = Object.entries(presetLabels).map(([preset, [short, full]]) => {
    const href = withQuery(context, { range: preset, from: null, to: null, [pageParameter]: null });
    return html`<a href="${href}"${preset === range.preset ? html` aria-current="true"` : ''}><abbr title="${full}">${short}</abbr></a>`;
  });
  const kept = [...url.searchParams].filter(([name]) => name !== pageParameter && !rangeParameters.some((parameter) => parameter === name));
  const last = range.to - 1;
  return html`<div class="range"><nav class="segments" aria-label="Period">${links}</nav>
<details class="menu range-custom" name="menu"><summary>${range.preset === 'custom' ? 'Other dates' : 'Dates'}</summary><form class="menu-items form" method="get" action="${url.pathname}">${kept.map(
    ([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`,
  )}<div class="field"><label for="range-from">From</label><input id="range-from" name="from" type="date" required value="${formatTimeIn(range.from, zone, 'date')}"></div>
<div class="field"><label for="range-to">To, inclusive</label><input id="range-to" name="to" type="date" required value="${formatTimeIn(last, zone, 'date')}"></div>
<p class="hint">Days in ${zone}</p><button class="button primary">Show</button></form></details>
<p class="hint range-text">${describePeriod(range, zone)} <span class="zone">${zone}</span></p></div>`;
}

/** Formats a period. Whole days have no times, e.g. `2026-11-16 to 2026-11-22`. */
export function describePeriod({ from, to }: Period, zone: string): string {
  const isWhole = formatLocal(zone, from).length === 10 && formatLocal(zone, to).length === 10;
  if (!isWhole) return `${unitStart(zone, from)} to ${unitStart(zone, to)}`;
  const [first, last] = [formatTimeIn(from, zone, 'date'), formatTimeIn(to - 1, zone, 'date')];
  return first === last ? first : `${first} to ${last}`;
}

export function rangeQuery({ url }: Pick<ConsoleContext, 'url'>): Record<string, string> {
  return Object.fromEntries(
    rangeParameters.flatMap((name) => {
      const value = url.searchParams.get(name);
      return value ? [[name, value]] : [];
    }),
  );
}

export function periodQuery({ from, to }: Period, zone: string): Record<string, string> {
  return { from: formatLocal(zone, from), to: inclusiveEnd(to, zone) };
}

export function weekAround(at: number, zone: string): Record<string, string> {
  const day = startOf('day', zone, at);
  return periodQuery({ from: addDays(zone, day, -3), to: addDays(zone, day, 4) }, zone);
}

/**
 * Formats the end of a period for a query. If the query contains only a date, it means the end of that day. So for a
 * period that ends at midnight, this returns the day before.
 */
function inclusiveEnd(to: number, zone: string): string {
  const text = formatLocal(zone, to);
  return text.length === 10 ? formatTimeIn(to - 1, zone, 'date') : text;
}

const unitNames: Readonly<Record<CalendarUnit, string>> = { minute: 'Minute', hour: 'Hour', day: 'Day', week: 'Week from', month: 'Month' };

export function unitName(unit: CalendarUnit): string {
  return unitNames[unit];
}

/**
 * Formats a time to the minute. If a clock change repeats an hour, an offset distinguishes its times, e.g. `2026-10-25
 * 02:00` and then `2026-10-25 02:00 +01:00`.
 */
export function unitStart(zone: string, at: number): string {
  return `${formatTimeIn(at, zone, 'minute')} ${offsetOfRepeatedTime(zone, at)}`.trimEnd();
}

const axisDates = createOncePerZone((zone) => new Intl.DateTimeFormat('en-GB', { timeZone: zone, day: 'numeric', month: 'short' }));

export function unitLabels(unit: CalendarUnit, zone: string, at: number): { readonly label: string; readonly axisLabel: string } {
  const minute = formatTimeIn(at, zone, 'minute');
  if (unit === 'minute' || unit === 'hour')
    return { label: unitStart(zone, at), axisLabel: minute.endsWith('00:00') ? axisDates(zone).format(at) : minute.slice(11) };
  if (unit === 'month') return { label: minute.slice(0, 7), axisLabel: minute.slice(0, 7) };
  return { label: minute.slice(0, 10), axisLabel: axisDates(zone).format(at) };
}
