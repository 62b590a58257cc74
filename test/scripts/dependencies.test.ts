import { describe, expect, test } from '@jest/globals';
import { matches } from '../../scripts/dependencies.js';

const here = { dev: true, platform: 'linux', arch: 'x64' };
const wanted = {
  packages: {
    '': {},
    'node_modules/pg': { version: '8.0.0', integrity: 'sha512-a' },
    'node_modules/jest': { version: '30.0.0', integrity: 'sha512-b', dev: true },
    'node_modules/binary-darwin': { version: '1.0.0', optional: true, os: ['darwin'], cpu: ['arm64'] },
  },
};
const pg = { 'node_modules/pg': { version: '8.0.0', integrity: 'sha512-a' } };
const jest = { 'node_modules/jest': { version: '30.0.0', integrity: 'sha512-b', dev: true } };

describe('checking whether npm ci has to run', () => {
  test('skips npm ci if only packages for other platforms are missing', () => {
    expect(matches(wanted, { packages: { ...pg, ...jest } }, here)).toBe(true);
  });

  test('runs npm ci if the lock has a different version or hash', () => {
    const found = (version: string, integrity: string) => ({ packages: { ...jest, 'node_modules/pg': { version, integrity } } });
    expect(matches(wanted, found('7.9.0', 'sha512-a'), here)).toBe(false);
    expect(matches(wanted, found('8.0.0', 'sha512-z'), here)).toBe(false);
  });

  test('runs npm ci if a package is missing', () => {
    expect(matches(wanted, { packages: jest }, here)).toBe(false);
    expect(matches(wanted, { packages: pg }, here)).toBe(false);
    expect(matches(wanted, { packages: pg }, { ...here, dev: false })).toBe(true);
  });

  test('runs npm ci if node_modules was copied from another platform', () => {
    const copied = { packages: { ...pg, ...jest, 'node_modules/binary-darwin': { version: '1.0.0', os: ['darwin'], cpu: ['arm64'] } } };
    expect(matches(wanted, copied, here)).toBe(false);
    expect(matches(wanted, copied, { dev: true, platform: 'darwin', arch: 'arm64' })).toBe(true);
    expect(matches({ packages: {} }, { packages: { a: { os: ['!win32'] } } }, here)).toBe(true);
  });
});
