import { describe, expect, test } from '@jest/globals';
import { createLocalQuota } from '../../src/ceilings/local-quota.ts';

describe('a slice', () => {
  test('admits what is granted and not one more', () => {
    const slice = createLocalQuota();
    expect(slice.reserve(1)).toBe(false);
    slice.grant(2);
    expect([slice.reserve(1), slice.reserve(1), slice.reserve(1)]).toEqual([true, true, false]);
  });

  test('takes back what a call did not spend', () => {
    const slice = createLocalQuota();
    slice.grant(100);
    slice.reserve(80);
    expect(slice.settle(80, 30)).toEqual({ taken: 30, owed: 0 });
    expect(slice).toMatchObject({ held: 100, reserved: 0, free: 70, isIdle: false });
    slice.commit({ amount: 30, overdraft: 0 });
    expect(slice).toMatchObject({ held: 70, reserved: 0, free: 70, isIdle: true });
  });

  test('a call that spends more than it reserved takes the rest of what is free, and owes what is beyond that until it is counted', () => {
    const slice = createLocalQuota();
    slice.grant(100);
    slice.reserve(40);
    slice.reserve(40);
    expect(slice.settle(40, 90)).toEqual({ taken: 60, owed: 30 });
    expect(slice).toMatchObject({ free: 0, reserved: 40, owed: 30 });
    expect(slice.settle(40, 40)).toEqual({ taken: 40, owed: 0 });
    slice.commit({ amount: 100, overdraft: 0 });
    expect(slice).toMatchObject({ held: 0, free: 0, owed: 30, isIdle: false });
    slice.commit({ amount: 0, overdraft: 30 });
    expect(slice).toMatchObject({ held: 0, free: 0, owed: 0, isIdle: true });
  });

  test('what a call took is free again when it will never be counted', () => {
    const slice = createLocalQuota();
    slice.grant(100);
    slice.reserve(40);
    slice.revert(slice.settle(40, 30));
    expect(slice).toMatchObject({ held: 100, free: 100, isIdle: true });
  });

  test('gives back only what no call holds', () => {
    const slice = createLocalQuota();
    slice.grant(10);
    slice.reserve(3);
    slice.settle(1, 1);
    expect(slice.takeAvailable()).toBe(7);
    expect(slice).toMatchObject({ held: 3, reserved: 2, free: 0 });
  });
});
