import { expect, test } from '@jest/globals';
import { forecastCeiling } from '../../src/ceilings/forecast.ts';

const day = 86_400_000;

test.each([
  ['that an exhausted ceiling is reached', 100, 100, 0, day, { kind: 'reached' }],
  ['that a ceiling of 0 is reached', 0, 0, 0, null, { kind: 'reached' }],
  ['when the rest will be used up', 100, 40, 10 / day, 30 * day, { kind: 'at', at: 6 * day }],
  ['nothing without recent use', 100, 40, 0, 30 * day, { kind: 'none' }],
  ['that the window ends first', 100, 40, 10 / day, 5 * day, { kind: 'not_in_window' }],
  ['nothing beyond a year', 1e9, 0, 1 / day, null, { kind: 'none' }],
])('forecasts %s', (_title, limit, used, rate, end, forecast) => {
  expect(forecastCeiling({ limit, used, rate, now: 0, end })).toEqual(forecast);
});
