/**
 * Which numbers, months and weekdays of a statement follow from the date of a message: `next Friday` in a message of 2026-11-20 makes
 * 27 November 2026 a date that follows.
 */
import { findTerms, type TimeTerms } from './time-terms.ts';

const isoDate = /\b\d{4}-\d{2}-\d{2}\b/g;

/** What a statement says about a date. */
export interface DateParts {
  /** Those in the form `2026-11-27`. */
  readonly dates: readonly string[];
  /** Numbers next to them that the text does not contain. */
  readonly numbers: readonly number[];
  /** 1 to 12. */
  readonly months: readonly number[];
  /** 0 is Sunday. */
  readonly weekdays: readonly number[];
}

const dayMs = 86_400_000;
/** `the 3rd` is that of this month, or of one next to it. */
const monthDays = 31;
/** A named weekday is at most so many days away. */
const weekdayReachDays = 14;
/** Days from which a text counts, its own first. Each makes up to 1,400 others; more of them are in logs and tables. */
const maxOrigins = 10;

/** The dates of a statement in the form `2026-11-27`, and the statement without them. */
export function takeDates(text: string): { readonly dates: readonly string[]; readonly rest: string } {
  return { dates: text.match(isoDate) ?? [], rest: text.replace(isoDate, ' ') };
}

/**
 * Returns a predicate: whether the parts belong to dates that follow from the text. A text refers to the date of its message and to the dates
 * that stand in it as `2026-11-20`. `numbers` are those of the text: `3` of `in three weeks`.
 */
export function createDateCheck(text: string, saidAt: Date, numbers: ReadonlySet<string>): (parts: DateParts) => boolean {
  const terms = findTerms(text);
  const counts = Array.from(numbers, Number);
  const named = Array.from(text.matchAll(isoDate), ([date]) => Date.parse(date)).filter((time) => !Number.isNaN(time));
  const origins = [...new Set([saidAt.getTime(), ...named].map((time) => Math.floor(time / dayMs)))].slice(0, maxOrigins);
  const days = origins.flatMap((origin) => findDays(origin, terms, counts));
  const digits = new Set(text.match(/\d+/g)?.map(Number));
  const isSaidMonth = (month: number): boolean => terms.months.has(month) || numbers.has(String(month));
  const isSaidDate = (date: string): boolean => {
    const [year = 0, month = 0, day = 0] = date.split('-').map(Number);
    if (days.some((each) => each.year === year && each.month === month && each.day === day)) return true;
    const isNear = origins.some((origin) => Math.abs(Date.parse(date) / dayMs - origin) <= monthDays);
    if (isNear && digits.has(day)) return true;
    return numbers.has(String(day)) && isSaidMonth(month) && (numbers.has(String(year)) || days.some((each) => each.year === year));
  };
  return ({ dates, numbers: others, months, weekdays }) =>
    dates.every(isSaidDate) &&
    days.some(({ year, month, day, weekday }) => {
      const possible = [year, month, day, year === null ? null : year % 100];
      return (
        others.every((number) => possible.includes(number)) &&
        months.every((named) => named === month || isSaidMonth(named)) &&
        weekdays.every((named) => named === weekday || terms.weekdays.has(named))
      );
    });
}

/** A day, or as much of it as the text determines. */
interface Day {
  readonly year: number | null;
  readonly month: number | null;
  readonly day: number | null;
  readonly weekday: number | null;
}

function findDays(origin: number, { weekdays, months, units }: TimeTerms, counts: readonly number[]): Day[] {
  const steps = [0, 1, 2, ...counts.filter((count) => count <= 100)].flatMap((count) => [count, -count]);
  const offsets = new Set([0]);
  for (let offset = -weekdayReachDays; offset <= weekdayReachDays; offset += 1)
    if (weekdays.has(weekdayOf(origin + offset))) offsets.add(offset);
  if (units.has('day')) for (const step of steps) offsets.add(step);
  if (units.has('week')) for (const step of steps) for (let day = -6; day <= 6; day += 1) offsets.add(7 * step + day);
  const days = Array.from(offsets, (offset) => toDay(origin + offset));
  const { year, month, day } = toDay(origin);
  const years = [0, 1, -1].map((step) => (year ?? 0) + step);
  for (const named of months) for (const nearest of years) days.push({ year: nearest, month: named, day: null, weekday: null });
  if (units.has('month'))
    for (const step of steps) {
      const date = new Date(Date.UTC(year ?? 0, (month ?? 1) - 1 + step, 1));
      days.push({ year: date.getUTCFullYear(), month: date.getUTCMonth() + 1, day, weekday: null });
    }
  if (units.has('year')) for (const step of steps) days.push({ year: (year ?? 0) + step, month, day, weekday: null });
  return days;
}

function toDay(days: number): Day {
  const date = new Date(days * dayMs);
  return { year: date.getUTCFullYear(), month: date.getUTCMonth() + 1, day: date.getUTCDate(), weekday: date.getUTCDay() };
}

/** 1970-01-01 was a Thursday. */
function weekdayOf(days: number): number {
  return (((days + 4) % 7) + 7) % 7;
}
