import { expect, test } from '@jest/globals';
import { describePeriod, periodQuery, unitStart } from '../../../src/console/frame/time-range.ts';
import { splitRange, startOf } from '../../../src/core/time-zone.ts';
import { formatLocal, parseRange } from '../../../src/usage/analytics/range.ts';

const now = Date.parse('2026-11-22T11:30:20Z');
const read = (query: string, zone = 'Europe/Berlin', at = now) => {
  const { preset, from, to, previous } = parseRange(new URLSearchParams(query), { zone, now: at });
  const iso = (time: number): string => new Date(time).toISOString().replace(':00.000Z', 'Z');
  return [preset, iso(from), iso(to), iso(previous.from), iso(previous.to)];
};

test.each([
  ['', ['7d', '2026-11-15T23:00Z', '2026-11-22T11:31Z', '2026-11-08T23:00Z', '2026-11-15T11:31Z']],
  ['range=24h', ['24h', '2026-11-21T11:31Z', '2026-11-22T11:31Z', '2026-11-20T11:31Z', '2026-11-21T11:31Z']],
  ['range=30d', ['30d', '2026-10-23T22:00Z', '2026-11-22T11:31Z', '2026-09-23T22:00Z', '2026-10-23T10:31Z']],
  ['range=month', ['month', '2026-10-31T23:00Z', '2026-11-22T11:31Z', '2026-09-30T22:00Z', '2026-10-22T10:31Z']],
  ['from=2026-10-24&to=2026-10-25', ['custom', '2026-10-23T22:00Z', '2026-10-25T23:00Z', '2026-10-21T22:00Z', '2026-10-23T22:00Z']],
  [
    'from=2026-11-20T10:30&to=2026-11-20T11:00',
    ['custom', '2026-11-20T09:30Z', '2026-11-20T10:00Z', '2026-11-20T09:00Z', '2026-11-20T09:30Z'],
  ],
])('parses %j as the range %j', (query, expected) => {
  expect(read(query)).toEqual(expected);
});

test.each([
  ['range=year', /^range: /],
  ['from=yesterday', /^from: /],
  ['from=2026-02-30', /^from: /],
  ['to=2026-11-20T24:10', /^to: /],
  ['from=2026-11-20&to=2026-11-19', /^from: must be before to/],
  ['from=2001-01-01', /years/],
])('returns 400 for the range %j', (query, message) => {
  expect(() => read(query)).toThrow(message);
});

test('formats a local time so that it can be used in a query', () => {
  expect(formatLocal('Asia/Kolkata', Date.parse('2026-11-19T18:30:00Z'))).toBe('2026-11-20');
  expect(formatLocal('Asia/Kolkata', Date.parse('2026-11-20T10:15:00Z'))).toBe('2026-11-20T15:45');
});

test('compares the month so far with the same part of the previous month', () => {
  const inLastMinute = read('range=month', 'UTC', Date.parse('2026-11-30T23:59:30Z'));
  expect(inLastMinute).toEqual(['month', '2026-11-01T00:00Z', '2026-12-01T00:00Z', '2026-10-01T00:00Z', '2026-10-31T00:00Z']);
});

test('handles a period that begins on a day when the clocks skip midnight', () => {
  // In Santiago the clocks go from 00:00 to 01:00 on 6 September.
  const week = read('', 'America/Santiago', Date.parse('2026-09-12T15:00:20Z'));
  expect(week).toEqual(['7d', '2026-09-06T04:00Z', '2026-09-12T15:01Z', '2026-08-30T04:00Z', '2026-09-05T16:01Z']);
});

test.each(['Europe/Berlin', 'Africa/Cairo', 'America/Havana', 'America/Santiago', 'Australia/Lord_Howe', 'Asia/Kathmandu'])(
  'links each hour, day or week in %s to exactly the calls in it',
  (zone) => {
    const monday = (date: string) => startOf('week', zone, Date.parse(`${date}T12:00:00Z`));
    const year = { from: monday('2026-01-05'), to: monday('2027-01-04') };
    const split = (unit: 'hour' | 'day' | 'week', range = year) => {
      const starts = splitRange(unit, zone, range, 400) ?? [];
      expect(new Set(starts.map((start) => unitStart(zone, start))).size).toBe(starts.length);
      return starts.map((start, index) => ({ from: start, to: starts[index + 1] ?? range.to }));
    };
    const weeks = split('week');
    // Hours are only special in the weeks in which the clocks change.
    const hours = weeks.filter(({ from, to }, index) => index === 0 || to - from !== 7 * 24 * 3_600_000).map((week) => split('hour', week));
    for (const periods of [weeks, split('day'), ...hours]) {
      const linked = periods.map((period) => {
        const range = parseRange(new URLSearchParams(periodQuery(period, zone)), { zone, now });
        return { from: range.from, to: range.to };
      });
      expect(linked).toEqual(periods);
    }
  },
);

test('adds the UTC offset to the second occurrence of a local time when clocks go back', () => {
  const [first, second] = [Date.parse('2026-10-25T00:00:00Z'), Date.parse('2026-10-25T01:00:00Z')];
  expect([first, second].map((at) => formatLocal('Europe/Berlin', at))).toEqual(['2026-10-25T02:00', '2026-10-25T02:00+01:00']);
  expect(describePeriod({ from: first, to: second }, 'Europe/Berlin')).toBe('2026-10-25 02:00 to 2026-10-25 02:00 +01:00');
  expect(read('from=2026-10-25T02:00%2B01:00&to=2026-10-25T02:30Z').slice(1, 3)).toEqual(['2026-10-25T01:00Z', '2026-10-25T02:30Z']);
});
