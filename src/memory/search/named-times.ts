/**
 * Finds times that a query mentions, so that search can prefer memories from that time. Recognizes English dates,
 * months and years, ISO dates, and past times relative to now (`yesterday`, `last week`, `two months ago`). It ignores
 * `this week`, and `today` unless it refers to something that happened, because both usually describe what the user
 * wants. All times are in UTC.
 */

/** A time span. `since` is inclusive and `until` is exclusive. */
export interface TimeSpan {
  readonly since: Date;
  readonly until: Date;
}

/** People often mention an event a few days after it happened. */
const reportedWithinDays = 7;
/** A query with more dates than this isn't really asking about a time. */
const maxTimes = 3;
/** If a date has no year, it can be from any of the last ten years, including this one. */
const yearsBack = 10;

const monthNames = 'january february march april may june july august september october november december'.split(' ');
const numerals = 'zero one two three four five six seven eight nine ten'.split(' ');
const month = `(?<month>${monthNames.map((name) => `${name}|${name.slice(0, 3)}`).join('|')}|sept)\\.?`;
const year = '(?<year>(?:19|20)\\d\\d)';
const day = '(?<day>[0-3]?\\d)(?:st|nd|rd|th)?';
const before = '(?:in|of|since|until|before|after|during|early|late)';

/**
 * The expressions are tried in this order. Each one removes its matches from the text, so that the ones after it can't
 * match a part of them.
 */
const forms = [
  `${year}-(?<month>\\d\\d)(?:-${day})?`,
  `${day}(?: of)? ${month},?(?: ${year})?`,
  `${month} ${day}(?:,? ${year})?`,
  `${month},?(?: of)? ${year}`,
  // `may` and `march` are also verbs, so `this may` and `winter may` don't count as months.
  `(?:${before}|last|this(?! (?:may|march))) ${month}`,
  `(?:${before}|spring|summer|autumn|fall|winter) ${year}`,
  '(?<recent>yesterday|last (?:week|month|year)|today(?<=(?<!\\p{L})(?:did|happened|earlier) (?:[^.!?]{0,100} )?today))',
  `(?<count>\\d{1,3}|an?|${numerals.slice(1).join('|')}) (?<unit>day|week|month|year)s? ago`,
].map((form) => new RegExp(`(?<![\\p{L}\\p{N}.-])${form}(?![\\p{L}\\p{N}-])`, 'giu'));

/**
 * Returns the times that a query mentions. Each is extended by a few days, because people may report an event later. If
 * the query mentions no times or too many, the list is empty.
 */
export function findNamedTimes(query: string, now: Date): TimeSpan[] {
  const times: Readonly<Record<string, string | undefined>>[] = [];
  let rest = query;
  for (const form of forms) {
    for (const match of rest.matchAll(form)) if (!isVerb(match)) times.push(match.groups ?? {});
    rest = rest.replace(form, ' ');
  }
  if (times.length > maxTimes) return [];
  return times.flatMap(({ year, month, day, recent, count, unit }) => {
    if (recent !== undefined) return [toSpan(now, toUnit(recent.split(' ')[1]), recent.toLowerCase() === 'today' ? 0 : -1)];
    if (count !== undefined) return [toSpan(now, toUnit(unit), -toCount(count))];
    const named = { month: month === undefined ? null : toMonth(month), day: day === undefined ? null : Number(day) };
    const years = year === undefined ? Array.from({ length: yearsBack }, (_, back) => now.getUTCFullYear() - back) : [Number(year)];
    return years.flatMap((calendarYear) => toDateSpan({ ...named, year: calendarYear }));
  });
}

/**
 * Checks whether `may` or `march` is a verb here, as in `may 2 people` and `2 may share`. We assume that it's a verb if
 * another word follows, unless it looks like a date, e.g. because of a capital letter, an ordinal number, or a
 * preposition such as `since`.
 */
function isVerb({ 0: text, index, input, groups }: RegExpExecArray): boolean {
  const { month = '', day, year } = groups ?? {};
  if (!/^(?:may|march)$/i.test(month) || day === undefined || year !== undefined) return false;
  const before = input.slice(0, index);
  const opensSentence = text.startsWith(month) && /(?:^|[.!?:] *)$/.test(before);
  const isName = /^\p{Lu}/u.test(month) && !opensSentence;
  const isDate =
    isName || / of |(?:st|nd|rd|th)$/i.test(text) || /(?<!\p{L})(?:on|since|until|by|before|after|from|between) (?:the )?$/iu.test(before);
  return !isDate && /^ (?!(?:is|was) )\p{L}/iu.test(input.slice(index + text.length));
}

type Unit = 'day' | 'week' | 'month' | 'year';

function toUnit(name: string | undefined): Unit {
  const lower = name?.toLowerCase();
  return lower === 'week' || lower === 'month' || lower === 'year' ? lower : 'day';
}

function toCount(name: string): number {
  const lower = name.toLowerCase();
  return lower === 'a' || lower === 'an' ? 1 : /^\d/.test(lower) ? Number(lower) : numerals.indexOf(lower);
}

/** Returns the month as a number from 0 to 11, or a number outside of this range if there's no such month. */
function toMonth(name: string): number {
  return /^\d/.test(name) ? Number(name) - 1 : monthNames.findIndex((month) => month.startsWith(name.toLowerCase().slice(0, 3)));
}

/** Returns the day, week, month or year that is `steps` away from the current one. Weeks start on Monday. */
function toSpan(now: Date, unit: Unit, steps: number): TimeSpan {
  const [y, m, d] = [now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate()];
  const monday = d - ((now.getUTCDay() + 6) % 7);
  const start = (n: number): number =>
    unit === 'year'
      ? Date.UTC(y + n, 0, 1)
      : unit === 'month'
        ? Date.UTC(y, m + n, 1)
        : Date.UTC(y, m, (unit === 'week' ? monday : d) + n * (unit === 'week' ? 7 : 1));
  return toReported(start(steps), start(steps + 1));
}

/** Returns an empty list for dates that don't exist, e.g. February 30. */
function toDateSpan({
  year,
  month,
  day,
}: {
  readonly year: number;
  readonly month: number | null;
  readonly day: number | null;
}): TimeSpan[] {
  if (month === null) return [toReported(Date.UTC(year, 0, 1), Date.UTC(year + 1, 0, 1))];
  if (month < 0 || month > 11) return [];
  if (day === null) return [toReported(Date.UTC(year, month, 1), Date.UTC(year, month + 1, 1))];
  const since = Date.UTC(year, month, day);
  return new Date(since).getUTCDate() === day ? [toReported(since, Date.UTC(year, month, day + 1))] : [];
}

function toReported(since: number, until: number): TimeSpan {
  return { since: new Date(since), until: new Date(until + reportedWithinDays * 86_400_000) };
}
