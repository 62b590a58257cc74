import { expect, test } from '@jest/globals';
import { createLoadMeter, type Load } from '../../src/core/event-loop-load.ts';

function createClock() {
  const state = { time: 0, active: 0, own: 0 };
  const readLoad = createLoadMeter({ now: () => state.time, activeMs: () => state.active, ownMs: () => state.own });
  /** Lets time pass, in which the event loop is active for `activeMs`, of which `ownMs` is our own work. */
  return (ms: number, activeMs: number, ownMs = 0): Load => {
    state.time += ms;
    state.active += activeMs;
    state.own += ownMs;
    return readLoad();
  };
}

test('reports the event loop as busy above 40 % utilization and as saturated above 80 %', () => {
  const pass = createClock();
  expect(pass(100, 35)).toBe('light');
  expect(pass(100, 45)).toBe('busy');
  // It's too early for the next measurement.
  expect(pass(50, 0)).toBe('busy');
  expect(pass(50, 0)).toBe('light');
  expect(pass(100, 75)).toBe('busy');
  expect(pass(100, 85)).toBe('saturated');
});

test("doesn't count work that can be postponed towards the load of the event loop", () => {
  const pass = createClock();
  expect(pass(100, 100, 90)).toBe('light');
  expect(pass(100, 100, 30)).toBe('busy');
});

test("measures the load of this process's event loop", () => {
  const readLoad = createLoadMeter();
  for (const end = performance.now() + 150; performance.now() < end /* keep the event loop busy */; );
  expect(readLoad()).toBe('saturated');
});
