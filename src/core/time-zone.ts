/**
 * Calendar arithmetic in an IANA time zone, including daylight saving time and offsets such as +05:45. Times are
 * milliseconds since 1970.
 */
import { dayMs, hourMs, minuteMs } from './time.ts';

export type CalendarUnit = 'minute' | 'hour' | 'day' | 'week' | 'month';

/** A local date and time. `month` and `day` start at 1. */
export interface LocalTime {
  readonly year: number;
  readonly month: number;
  readonly day: number;
  readonly hour: number;
  readonly minute: number;
}

/**
 * Only accepts time zone names. `Intl` also accepts offsets such as `+05:30`, but these ignore daylight saving time.
 */
export function isTimeZone(name: string): boolean {
  if (name === 'UTC') return true; // Skip the check for the default, which saves a third of a millisecond.
  if (!/^[A-Za-z]/.test(name)) return false;
  try {
    new Intl.DateTimeFormat('en', { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

/**
 * Calls `create` once for each time zone and remembers the result, because creating a format takes far longer than
 * using it. `Intl` accepts every capitalization of a name. We treat them as the same zone, because a caller could
 * otherwise fill the memory with spellings.
 */
export function createOncePerZone<Format extends object>(create: (zone: string) => Format): (zone: string) => Format {
  const created = new Map<string, Format>();
  return (zone) => {
    const key = zone.toLowerCase();
    let format = created.get(key);
    if (format === undefined) {
      format = create(zone);
      created.set(key, format);
    }
    return format;
  };
}

const offsetFormat = createOncePerZone((zone) => new Intl.DateTimeFormat('en-US', { timeZone: zone, timeZoneName: 'longOffset' }));

export function offsetAt(zone: string, at: number): number {
  if (zone === 'UTC') return 0;
  const parts = offsetFormat(zone).formatToParts(at);
  const name = parts.find(({ type }) => type === 'timeZoneName')?.value ?? 'GMT';
  const match = /^GMT([+-])(\d{2}):(\d{2})(?::(\d{2}))?$/.exec(name);
  if (!match) return 0;
  const [, sign, hours, minutes, seconds = '0'] = match;
  const offset = Number(hours) * hourMs + Number(minutes) * minuteMs + Number(seconds) * 1_000;
  return sign === '-' ? -offset : offset;
}

export function toLocalTime(zone: string, at: number): LocalTime {
  const local = new Date(at + offsetAt(zone, at));
  return {
    year: local.getUTCFullYear(),
    month: local.getUTCMonth() + 1,
    day: local.getUTCDate(),
    hour: local.getUTCHours(),
    minute: local.getUTCMinutes(),
  };
}

/**
 * Converts a local time to an instant. If the local time occurs twice, this returns the first occurrence. If a clock
 * change skips it, this returns the instant of the change. `day`, `hour` and the other values can be out of range, e.g.
 * day 0 is the last day of the previous month.
 */
export function fromLocalTime(zone: string, { year, month, day, hour = 0, minute = 0 }: Partial<LocalTime> & DateOfYear): number {
  const local = Date.UTC(year, month - 1, day, hour, minute);
  const before = offsetAt(zone, local - dayMs);
  const after = offsetAt(zone, local + dayMs);
  if (before === after) return local - before;
  if (offsetAt(zone, local - before) === before) return local - before;
  if (offsetAt(zone, local - after) === after) return local - after;
  return findChange(zone, local - before - dayMs, local - after + dayMs);
}

interface DateOfYear {
  readonly year: number;
  readonly month: number;
  readonly day: number;
}

/**
 * Returns the UTC offset of `at`, such as `+01:00`, if its local time had already occurred before the clock was set
 * back. Otherwise, returns an empty string. A local time without an offset means the first occurrence.
 */
export function offsetOfRepeatedTime(zone: string, at: number): string {
  if (fromLocalTime(zone, toLocalTime(zone, at)) === at - modulo(at, minuteMs)) return '';
  const minutes = Math.round(offsetAt(zone, at) / minuteMs);
  const two = (value: number): string => String(Math.floor(value)).padStart(2, '0');
  return `${minutes < 0 ? '-' : '+'}${two(Math.abs(minutes) / 60)}:${two(Math.abs(minutes) % 60)}`;
}

/** Returns the start of the calendar unit that contains `at`. Weeks start on Monday. */
export function startOf(unit: CalendarUnit, zone: string, at: number): number {
  switch (unit) {
    case 'minute':
      return Math.floor(at / minuteMs) * minuteMs;
    case 'hour':
      return at - modulo(at + offsetAt(zone, at), hourMs);
    case 'day':
      return fromLocalTime(zone, dateAt(zone, at));
    case 'week': {
      const date = dateAt(zone, at);
      const weekday = (new Date(Date.UTC(date.year, date.month - 1, date.day)).getUTCDay() + 6) % 7;
      return fromLocalTime(zone, { ...date, day: date.day - weekday });
    }
    case 'month':
      return fromLocalTime(zone, { ...dateAt(zone, at), day: 1 });
  }
}

export function startOfNext(unit: CalendarUnit, zone: string, at: number): number {
  switch (unit) {
    case 'minute':
      return startOf(unit, zone, at) + minuteMs;
    case 'hour':
      return startOf(unit, zone, at) + hourMs;
    case 'day':
    case 'week':
    case 'month': {
      const date = dateAt(zone, startOf(unit, zone, at));
      // Some zones have skipped a whole date. Such a date starts at the same instant as the next one, so continue until
      // we get past `at`.
      for (let step = 1; ; step += 1) {
        const days = unit === 'week' ? 7 * step : unit === 'day' ? step : 0;
        const next = fromLocalTime(zone, { ...date, day: date.day + days, month: date.month + (unit === 'month' ? step : 0) });
        if (next > at) return next;
      }
    }
  }
}

/** Returns the same local time on another day. `days` can be negative. */
export function addDays(zone: string, at: number, days: number): number {
  const local = toLocalTime(zone, at);
  const withinMinute = modulo(at, minuteMs);
  return fromLocalTime(zone, { ...local, day: local.day + days }) + withinMinute;
}

/**
 * Splits the range into calendar units and returns their start times in ascending order. The first and the last unit
 * can be incomplete, and the first one starts at `from`. Returns null if there are more than `limit` units.
 */
export function splitRange(unit: CalendarUnit, zone: string, range: { from: number; to: number }, limit: number): number[] | null {
  const starts: number[] = [];
  for (let at = range.from; at < range.to; at = startOfNext(unit, zone, at)) {
    if (starts.length === limit) return null;
    starts.push(at);
  }
  return starts;
}

function dateAt(zone: string, at: number): DateOfYear {
  const { year, month, day } = toLocalTime(zone, at);
  return { year, month, day };
}

function findChange(zone: string, from: number, to: number): number {
  const before = offsetAt(zone, from);
  let [low, high] = [from, to];
  while (high - low > 1_000) {
    const middle = Math.floor((low + high) / 2_000) * 1_000;
    if (middle <= low) break;
    if (offsetAt(zone, middle) === before) low = middle;
    else high = middle;
  }
  return high;
}

function modulo(value: number, divisor: number): number {
  return ((value % divisor) + divisor) % divisor;
}
