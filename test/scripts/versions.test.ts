import { expect, test } from '@jest/globals';
import { compareVersions, satisfies } from '../../scripts/versions.js';

test('compares the parts of a version numerically', () => {
  expect(compareVersions('22.9.0', '22.18.0')).toBeLessThan(0);
  expect(compareVersions('v24.0.1', '24')).toBeGreaterThan(0);
  expect(compareVersions('22.18', '22.18.0')).toBe(0);
});

test('accepts Node 22.18 and later for `>=22.18`', () => {
  expect(['20.20.2', '22.17.9', '22.18.0', '24.0.0-rc.1'].map((version) => satisfies(version, '>=22.18'))).toEqual([
    false,
    false,
    true,
    true,
  ]);
});

test('quotes a version range in an unknown format in the error', () => {
  expect(() => satisfies('24.0.0', '^22 || ^24')).toThrow('"^22 || ^24"');
});
