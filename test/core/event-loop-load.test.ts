import { expect, test } from '@jest/globals';
import { createIsBusy } from '../../src/core/event-loop-load.ts';

function createClock() {
  const state = { time: 0, active: 0, own: 0 };
  const isBusy = createIsBusy({ now: () => state.time, activeMs: () => state.active, ownMs: () => state.own });
  /** Lets time pass, in which the event loop is active for `activeMs`, of which `ownMs` is our own work. */
  return (ms: number, activeMs: number, ownMs = 0): boolean => {
    state.time += ms;
    state.active += activeMs;
    state.own += ownMs;
    return isBusy();
  };
}

test('the event loop is busy if it was active for more than 40 % of the last tenth of a second', () => {
  const pass = createClock();
  expect(pass(100, 35)).toBe(false);
  expect(pass(100, 45)).toBe(true);
  // It's too early for the next measurement.
  expect(pass(50, 0)).toBe(true);
  expect(pass(50, 0)).toBe(false);
});

test("the event loop isn't busy if it only does the work that would be postponed", () => {
  const pass = createClock();
  expect(pass(100, 100, 90)).toBe(false);
  expect(pass(100, 100, 20)).toBe(true);
});

test('measures the event loop of this process', () => {
  const isBusy = createIsBusy();
  for (const end = performance.now() + 150; performance.now() < end /* keep the event loop busy */; );
  expect(isBusy()).toBe(true);
});
