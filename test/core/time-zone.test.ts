import { describe, expect, jest, test } from '@jest/globals';
import { unitLabels } from '../../src/console/frame/time-range.ts';
import { formatTimeIn } from '../../src/console/frame/values.ts';
import { addDays, fromLocalTime, offsetAt, splitRange, startOf, startOfNext, toLocalTime } from '../../src/core/time-zone.ts';

const iso = (at: number): string => new Date(at).toISOString();
const at = (text: string): number => Date.parse(text);
const hour = 3_600_000;

test.each([
  ['UTC', '2026-07-01T00:00:00Z', 0],
  ['Europe/Berlin', '2026-07-01T00:00:00Z', 2],
  ['Europe/Berlin', '2026-12-01T00:00:00Z', 1],
  ['Asia/Kolkata', '2026-07-01T00:00:00Z', 5.5],
  ['Asia/Kathmandu', '2026-07-01T00:00:00Z', 5.75],
  ['America/St_Johns', '2026-12-01T00:00:00Z', -3.5],
])('%s at %s is %d hours ahead of UTC', (zone, time, hours) => {
  expect(offsetAt(zone, at(time))).toBe(hours * hour);
});

test.each([
  ['Europe/Berlin', 'day', '2026-03-29T12:00:00Z', '2026-03-28T23:00:00.000Z', '2026-03-29T22:00:00.000Z'],
  ['Europe/Berlin', 'day', '2026-10-25T12:00:00Z', '2026-10-24T22:00:00.000Z', '2026-10-25T23:00:00.000Z'],
  ['Asia/Kolkata', 'day', '2026-11-20T19:00:00Z', '2026-11-20T18:30:00.000Z', '2026-11-21T18:30:00.000Z'],
  ['Asia/Kolkata', 'hour', '2026-11-20T19:10:00Z', '2026-11-20T18:30:00.000Z', '2026-11-20T19:30:00.000Z'],
  ['Asia/Kathmandu', 'month', '2026-11-30T18:15:00Z', '2026-11-30T18:15:00.000Z', '2026-12-31T18:15:00.000Z'],
  ['UTC', 'week', '2026-11-22T12:00:00Z', '2026-11-16T00:00:00.000Z', '2026-11-23T00:00:00.000Z'],
  ['Europe/Berlin', 'month', '2026-12-31T23:30:00Z', '2026-12-31T23:00:00.000Z', '2027-01-31T23:00:00.000Z'],
  // Midnight does not exist, or exists twice, or the whole day does not exist.
  ['Africa/Cairo', 'day', '2026-04-24T12:00:00Z', '2026-04-23T22:00:00.000Z', '2026-04-24T21:00:00.000Z'],
  ['America/Havana', 'day', '2026-11-01T12:00:00Z', '2026-11-01T04:00:00.000Z', '2026-11-02T05:00:00.000Z'],
  ['Pacific/Apia', 'day', '2011-12-30T09:00:00Z', '2011-12-29T10:00:00.000Z', '2011-12-30T10:00:00.000Z'],
] as const)('in %s, the %s of %s runs from %s to %s', (zone, unit, time, start, next) => {
  expect(iso(startOf(unit, zone, at(time)))).toBe(start);
  expect(iso(startOfNext(unit, zone, at(time)))).toBe(next);
});

test("creates a time zone's formatters only once, even if its name is spelled differently", () => {
  const use = (zone: string): unknown[] => [
    offsetAt(zone, at('2026-07-01T00:00:00Z')),
    formatTimeIn(at('2026-07-01T00:00:00Z'), zone),
    unitLabels('day', zone, at('2026-07-01T00:00:00Z')),
    unitLabels('hour', zone, at('2026-07-01T02:00:00Z')),
  ];
  const create = jest.spyOn(Intl, 'DateTimeFormat');
  try {
    const formatted = use('Pacific/Chatham');
    expect(create).toHaveBeenCalled();
    create.mockClear();
    for (const zone of ['pacific/chatham', 'PACIFIC/CHATHAM', 'Pacific/cHATHAM']) expect(use(zone)).toEqual(formatted);
    expect(create).not.toHaveBeenCalled();
  } finally {
    create.mockRestore();
  }
});

test('resolves local times that a clock change skips or repeats', () => {
  expect(iso(fromLocalTime('Europe/Berlin', { year: 2026, month: 3, day: 29, hour: 2, minute: 30 }))).toBe('2026-03-29T01:00:00.000Z');
  expect(iso(fromLocalTime('Europe/Berlin', { year: 2026, month: 10, day: 25, hour: 2, minute: 30 }))).toBe('2026-10-25T00:30:00.000Z');
});

test('adds calendar days in local time', () => {
  expect(iso(addDays('Europe/Berlin', at('2026-10-24T10:00:30Z'), 2))).toBe('2026-10-26T11:00:30.000Z');
  expect(toLocalTime('Asia/Kathmandu', at('2026-11-20T18:15:00Z'))).toEqual({ year: 2026, month: 11, day: 21, hour: 0, minute: 0 });
});

describe('splitting a range', () => {
  test.each(['UTC', 'Europe/Berlin', 'Asia/Kolkata', 'Australia/Lord_Howe', 'Africa/Cairo'])(
    'splits a time range in %s into the same calendar days as Intl',
    (zone) => {
      const range = { from: at('2026-01-15T08:20:00Z'), to: at('2026-12-20T10:00:00Z') };
      const starts = splitRange('day', zone, range, 500) ?? [];
      const format = new Intl.DateTimeFormat('en-CA', { timeZone: zone, dateStyle: 'short' });
      const days = starts.map((start) => format.format(start));
      expect(new Set(days).size).toBe(days.length);
      expect(starts.slice(1).map((start) => format.format(start - 1))).toEqual(days.slice(0, -1));
      expect(starts[0]).toBe(range.from);
    },
  );

  test('days have 23 or 25 hours when the clocks change', () => {
    const hoursOf = (day: string): number => {
      const from = startOf('day', 'Europe/Berlin', at(day));
      return splitRange('hour', 'Europe/Berlin', { from, to: startOfNext('day', 'Europe/Berlin', from) }, 30)?.length ?? 0;
    };
    expect([hoursOf('2026-03-29T12:00:00Z'), hoursOf('2026-10-25T12:00:00Z'), hoursOf('2026-06-01T12:00:00Z')]).toEqual([23, 25, 24]);
  });

  test('returns null if a time range would be split into too many units', () => {
    expect(splitRange('minute', 'UTC', { from: 0, to: hour }, 59)).toBeNull();
    expect(splitRange('minute', 'UTC', { from: 0, to: hour }, 60)).toHaveLength(60);
  });
});
