import { describe, expect, test } from '@jest/globals';
import { createSlice } from '../../src/ceilings/slice.ts';

describe('a slice', () => {
  test('admits what is granted and not one more', () => {
    const slice = createSlice();
    expect(slice.reserve(1)).toBe(false);
    slice.grant(2);
    expect([slice.reserve(1), slice.reserve(1), slice.reserve(1)]).toEqual([true, true, false]);
  });

  test('takes back what a call did not spend', () => {
    const slice = createSlice();
    slice.grant(100);
    slice.reserve(80);
    expect(slice.settle(80, 30)).toBe(30);
    expect(slice).toMatchObject({ held: 100, reserved: 0, free: 70, isIdle: false });
    slice.counted(30);
    expect(slice).toMatchObject({ held: 70, reserved: 0, free: 70, isIdle: true });
  });

  test('a call that spends more than it reserved takes the rest of what is free, and no more than that', () => {
    const slice = createSlice();
    slice.grant(100);
    slice.reserve(40);
    slice.reserve(40);
    expect(slice.settle(40, 90)).toBe(60);
    expect(slice).toMatchObject({ free: 0, reserved: 40 });
    expect(slice.settle(40, 40)).toBe(40);
    slice.counted(100);
    expect(slice).toMatchObject({ held: 0, free: 0, isIdle: true });
  });

  test('what a call took is free again when it will never be counted', () => {
    const slice = createSlice();
    slice.grant(100);
    slice.reserve(40);
    slice.uncounted(slice.settle(40, 30));
    expect(slice).toMatchObject({ held: 100, free: 100, isIdle: true });
  });

  test('gives back only what no call holds', () => {
    const slice = createSlice();
    slice.grant(10);
    slice.reserve(3);
    slice.settle(1, 1);
    expect(slice.takeFree()).toBe(7);
    expect(slice).toMatchObject({ held: 3, reserved: 2, free: 0 });
  });
});
