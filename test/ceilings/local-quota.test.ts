import { describe, expect, test } from '@jest/globals';
import { LocalQuota } from '../../src/ceilings/local-quota.ts';

describe('local quota', () => {
  test('never reserves more quota than was granted', () => {
    const quota = new LocalQuota();
    expect(quota.reserve(1)).toBe(false);
    quota.grant(2);
    expect([quota.reserve(1), quota.reserve(1), quota.reserve(1)]).toEqual([true, true, false]);
  });

  test('makes the unused part of a reservation available again when the call is settled', () => {
    const quota = new LocalQuota();
    quota.grant(100);
    quota.reserve(80);
    expect(quota.settle(80, 30)).toBe(30);
    expect(quota).toMatchObject({ leased: 100, reserved: 0, available: 70, isIdle: false });
    quota.commit(30, 0);
    expect(quota).toMatchObject({ leased: 70, reserved: 0, available: 70, isIdle: true });
  });

  test('records usage above the reservation as overdraft', () => {
    const quota = new LocalQuota();
    quota.grant(100);
    quota.reserve(40);
    quota.reserve(40);
    expect(quota.settle(40, 90)).toBe(60);
    expect(quota).toMatchObject({ available: 0, reserved: 40, overdraft: 30 });
    expect(quota.settle(40, 40)).toBe(40);
    quota.commit(100, 0);
    expect(quota).toMatchObject({ leased: 0, available: 0, overdraft: 30, isIdle: false });
    quota.commit(0, 30);
    expect(quota).toMatchObject({ leased: 0, available: 0, overdraft: 0, isIdle: true });
  });

  test('makes quota available again when a debit is reverted', () => {
    const quota = new LocalQuota();
    quota.grant(100);
    quota.reserve(40);
    quota.revert(quota.settle(40, 30), 0);
    expect(quota).toMatchObject({ leased: 100, available: 100, isIdle: true });
  });

  test("gives up only quota that isn't reserved or waiting to be stored", () => {
    const quota = new LocalQuota();
    quota.grant(10);
    quota.reserve(3);
    quota.settle(1, 1);
    expect(quota.takeAvailable()).toBe(7);
    expect(quota).toMatchObject({ leased: 3, reserved: 2, available: 0 });
  });
});
