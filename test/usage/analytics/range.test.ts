import { expect, test } from '@jest/globals';
import { formatLocal, parseRange } from '../../../src/usage/analytics/range.ts';

const now = Date.parse('2026-11-22T11:30:20Z');
const read = (query: string, zone = 'Europe/Berlin') => {
  const { preset, from, to, previous } = parseRange(new URLSearchParams(query), { zone, now });
  const iso = (time: number): string => new Date(time).toISOString().replace(':00.000Z', 'Z');
  return [preset, iso(from), iso(to), iso(previous.from), iso(previous.to)];
};

test.each([
  ['', ['7d', '2026-11-15T23:00Z', '2026-11-22T11:31Z', '2026-11-08T23:00Z', '2026-11-15T11:31Z']],
  ['range=24h', ['24h', '2026-11-21T11:31Z', '2026-11-22T11:31Z', '2026-11-20T11:31Z', '2026-11-21T11:31Z']],
  ['range=30d', ['30d', '2026-10-23T22:00Z', '2026-11-22T11:31Z', '2026-09-23T22:00Z', '2026-10-23T10:31Z']],
  ['range=month', ['month', '2026-10-31T23:00Z', '2026-11-22T11:31Z', '2026-09-30T22:00Z', '2026-10-22T10:31Z']],
  ['from=2026-10-24&to=2026-10-25', ['custom', '2026-10-23T22:00Z', '2026-10-25T23:00Z', '2026-10-21T21:00Z', '2026-10-23T22:00Z']],
  [
    'from=2026-11-20T10:30&to=2026-11-20T11:00',
    ['custom', '2026-11-20T09:30Z', '2026-11-20T10:00Z', '2026-11-20T09:00Z', '2026-11-20T09:30Z'],
  ],
])('%j is the range %j', (query, expected) => {
  expect(read(query)).toEqual(expected);
});

test.each([
  ['range=year', /^range: /],
  ['from=yesterday', /^from: /],
  ['from=2026-02-30', /^from: /],
  ['to=2026-11-20T24:10', /^to: /],
  ['from=2026-11-20&to=2026-11-19', /^from: must be before to/],
  ['from=2001-01-01', /years/],
])('%j is a bad request', (query, message) => {
  expect(() => read(query)).toThrow(message);
});

test('a time is formatted as queries accept it', () => {
  expect(formatLocal('Asia/Kolkata', Date.parse('2026-11-19T18:30:00Z'))).toBe('2026-11-20');
  expect(formatLocal('Asia/Kolkata', Date.parse('2026-11-20T10:15:00Z'))).toBe('2026-11-20T15:45');
});
