import { expect, test } from '@jest/globals';
import { forecastCeiling } from '../../src/ceilings/forecast.ts';

const day = 86_400_000;

test.each([
  ['of what is used up is that it is reached', 100, 100, 0, day, { kind: 'reached' }],
  ['of a ceiling of 0 is that it is reached', 0, 0, 0, null, { kind: 'reached' }],
  ['is the time at which the rest is used', 100, 40, 10 / day, 30 * day, { kind: 'at', at: 6 * day }],
  ['is none without recent use', 100, 40, 0, 30 * day, { kind: 'none' }],
  ['is that the window ends before', 100, 40, 10 / day, 5 * day, { kind: 'not_in_window' }],
  ['is none beyond a year', 1e9, 0, 1 / day, null, { kind: 'none' }],
])('the forecast %s', (_title, limit, used, rate, end, forecast) => {
  expect(forecastCeiling({ limit, used, rate, now: 0, end })).toEqual(forecast);
});
