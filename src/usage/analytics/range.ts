/**
 * Parses the time range of a usage view, which is either a preset or a pair of dates in the project's reporting time
 * zone. Every range comes with the period before it, so that we can compare the two.
 */
import { gatewayError } from '../../core/errors.ts';
import { hourMs, minuteMs } from '../../core/time.ts';
import {
  addDays,
  type CalendarUnit,
  fromLocalTime,
  offsetOfRepeatedTime,
  splitRange,
  startOf,
  startOfNext,
  toLocalTime,
} from '../../core/time-zone.ts';

export const rangePresets = ['1h', '24h', '7d', '30d', 'month', 'custom'] as const;
export type RangePreset = (typeof rangePresets)[number];

/** `to` is exclusive. */
export interface Period {
  readonly from: number;
  readonly to: number;
}

export interface Range extends Period {
  readonly preset: RangePreset;
  /**
   * The period to compare with. It comes right before the range and has the same number of days, or the same length if
   * the range doesn't consist of whole days. For the current month, it's the same part of the previous month.
   */
  readonly previous: Period;
}

/** We reject longer ranges, because a chart with a bar for each day would become unreadable. */
const maxYears = 5;

/**
 * Parses the query parameters `range`, `from` and `to`. `7d` and `30d` are calendar days and include today.
 *
 * `from` and `to` are local times such as `2026-11-20` or `2026-11-20T10:30`. If `to` is a date, the range includes
 * that whole day. When the clock goes back, the same hour occurs twice, and an offset says which one is meant. Throws
 * `bad_request` if a parameter is invalid.
 */
export function parseRange(
  query: Pick<URLSearchParams, 'get'>,
  { zone, now, preset: byDefault = '7d' }: { readonly zone: string; readonly now: number; readonly preset?: RangePreset },
): Range {
  const from = query.get('from') || null;
  const to = query.get('to') || null;
  const name = query.get('range') || (from !== null || to !== null ? 'custom' : byDefault);
  const preset = rangePresets.find((known) => known === name);
  if (!preset) throw gatewayError('bad_request', { message: `range: must be one of ${rangePresets.join(', ')}` });
  // Include the whole current minute, because the clocks of other processes may be slightly ahead.
  const end = startOfNext('minute', zone, now);
  switch (preset) {
    case '1h':
      return { preset, from: end - hourMs, to: end, previous: { from: end - 2 * hourMs, to: end - hourMs } };
    case '24h':
      return { preset, from: end - 24 * hourMs, to: end, previous: { from: end - 48 * hourMs, to: end - 24 * hourMs } };
    case '7d':
      return daysUntil(preset, 7, zone, now, end);
    case '30d':
      return daysUntil(preset, 30, zone, now, end);
    case 'month': {
      const start = startOf('month', zone, now);
      const previousStart = startOf('month', zone, start - 1);
      const today = startOf('day', zone, now);
      const elapsedTo = shiftDays(zone, previousStart, toLocalTime(zone, now).day - 1) + (end - today);
      return { preset, from: start, to: end, previous: { from: previousStart, to: Math.min(elapsedTo, start) } };
    }
    case 'custom':
      return customRange(from, to, zone, now);
  }
}

function daysUntil(preset: RangePreset, days: number, zone: string, now: number, end: number): Range {
  const from = shiftDays(zone, startOf('day', zone, now), 1 - days);
  return { preset, from, to: end, previous: { from: shiftDays(zone, from, -days), to: shiftDays(zone, end, -days) } };
}

/**
 * Like `addDays`, but maps the start of a day to the start of another day. They can differ in local time, because a day
 * starts at 01:00 if a clock change skips midnight.
 */
function shiftDays(zone: string, at: number, days: number): number {
  const shifted = addDays(zone, at, days);
  return startOf('day', zone, at) === at ? startOf('day', zone, shifted) : shifted;
}

function customRange(fromText: string | null, toText: string | null, zone: string, now: number): Range {
  const end = startOfNext('minute', zone, now);
  const to = toText === null ? end : parseLocal('to', toText, zone).end;
  const from = fromText === null ? startOf('day', zone, addDays(zone, to, -7)) : parseLocal('from', fromText, zone).start;
  if (from >= to) throw gatewayError('bad_request', { message: 'from: must be before to' });
  if (to - from > maxYears * 366 * 24 * hourMs)
    throw gatewayError('bad_request', { message: `from: must be at most ${maxYears} years before to` });
  const isWholeDays = [from, to].every((at) => startOf('day', zone, at) === at);
  const previousFrom = isWholeDays ? shiftDays(zone, from, -Math.round((to - from) / (24 * hourMs))) : from - (to - from);
  return { preset: 'custom', from, to, previous: { from: previousFrom, to: from } };
}

function parseLocal(field: 'from' | 'to', text: string, zone: string): { start: number; end: number } {
  const match = /^(\d{4})-(\d{2})-(\d{2})(?:T(\d{2}):(\d{2})(Z|[+-]\d{2}:\d{2})?)?$/.exec(text);
  const invalid = () => gatewayError('bad_request', { message: `${field}: must be a date such as 2026-11-20, or 2026-11-20T10:30` });
  if (!match) throw invalid();
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0] = match.slice(1, 6).map((part) => Number(part ?? 0));
  const utc = new Date(Date.UTC(year, month - 1, day, hour, minute));
  const isReal = utc.getUTCMonth() === month - 1 && utc.getUTCDate() === day && hour < 24 && minute < 60 && year >= 1970;
  if (!isReal) throw invalid();
  const start = match[6] === undefined ? fromLocalTime(zone, { year, month, day, hour, minute }) : utc.getTime() - parseOffset(match[6]);
  return { start, end: match[4] === undefined ? startOfNext('day', zone, start) : start };
}

function parseOffset(text: string): number {
  if (text === 'Z') return 0;
  const size = Number(text.slice(1, 3)) * hourMs + Number(text.slice(4)) * minuteMs;
  return text.startsWith('-') ? -size : size;
}

export function formatLocal(zone: string, at: number): string {
  const { year, month, day, hour, minute } = toLocalTime(zone, at);
  const two = (value: number): string => String(value).padStart(2, '0');
  const date = `${year}-${two(month)}-${two(day)}`;
  const offset = offsetOfRepeatedTime(zone, at);
  return hour === 0 && minute === 0 && offset === '' ? date : `${date}T${two(hour)}:${two(minute)}${offset}`;
}

/** We reject ranges with more units than this, because a chart has no room for them and the SQL would get too long. */
const maxUnits = 1_500;

/** Returns the start of each unit. Throws `bad_request` if there are too many. */
export function splitIntoUnits(unit: CalendarUnit, zone: string, period: Period): number[] {
  const starts = splitRange(unit, zone, period, maxUnits);
  if (starts === null)
    throw gatewayError('bad_request', { message: `range: contains more than ${maxUnits} ${unit}s; choose a larger unit` });
  return starts;
}

/** With more units than this, a chart gets too dense and its page too large. */
export const maxChartUnits = 75;

export function unitFor({ from, to }: Period): CalendarUnit {
  const hours = (to - from) / hourMs;
  // The period may begin and end in the middle of a unit, so leave room for two more units.
  const atMost = maxChartUnits - 2;
  if (hours * 60 <= atMost) return 'minute';
  if (hours <= atMost) return 'hour';
  if (hours / 24 <= atMost) return 'day';
  return hours / 24 / 7 <= atMost ? 'week' : 'month';
}
