import { expect, test } from '@jest/globals';
import { formatTime, minuteAt, monthAt, systemClock } from '../../src/core/time.ts';

test.each([
  ['2026-11-20T10:00:00.000Z', '2026-11-20T10:00:00Z'],
  ['2026-11-20T10:00:00.120Z', '2026-11-20T10:00:00.120Z'],
  ['1970-01-01T00:00:00.000Z', '1970-01-01T00:00:00Z'],
])('formats %s as %s', (text, written) => {
  expect(formatTime(Date.parse(text))).toBe(written);
});

test.each([
  ['2026-11-20T10:00:00Z', '2026-11', '2026-11-01T00:00:00Z', '2026-12-01T00:00:00Z'],
  ['2026-12-31T23:59:59.999Z', '2026-12', '2026-12-01T00:00:00Z', '2027-01-01T00:00:00Z'],
  ['2027-01-01T00:00:00Z', '2027-01', '2027-01-01T00:00:00Z', '2027-02-01T00:00:00Z'],
  ['2028-02-29T12:00:00Z', '2028-02', '2028-02-01T00:00:00Z', '2028-03-01T00:00:00Z'],
])('the UTC month of %s is %s', (text, name, start, end) => {
  expect(monthAt(Date.parse(text))).toEqual({ name, start: Date.parse(start), end: Date.parse(end) });
});

test.each([
  ['2026-11-20T10:00:00Z', '2026-11-20T10:00:00Z', '2026-11-20T10:01:00Z'],
  ['2026-11-20T10:59:59.999Z', '2026-11-20T10:59:00Z', '2026-11-20T11:00:00Z'],
])('the minute of %s starts at %s', (text, start, end) => {
  expect(minuteAt(Date.parse(text))).toEqual({ start: Date.parse(start), end: Date.parse(end) });
});

test('the system clock returns milliseconds since 1970', () => {
  expect(systemClock.now()).toBeGreaterThan(Date.parse('2025-01-01'));
});
