import { mock } from 'node:test';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { type ContentWait, type ContentWaits, createContentWaits } from '../../src/failover/content-waits.ts';

let slow: ContentWait[] = [];
let waits: ContentWaits;

beforeEach(() => {
  mock.timers.enable({ apis: ['setInterval'] });
  slow = [];
  waits = createContentWaits((wait) => slow.push(wait));
});
afterEach(() => mock.timers.reset());

const pass = (seconds: number): void => void mock.timers.tick(seconds * 1_000);
const begin = (model = 'm', isStream = true): ContentWait =>
  waits.begin({ projectId: 'acme', candidate: { id: `one/${model}`, provider: 'one' }, isStream });
/** Simulates attempts that get their content after this many seconds, one after the other. */
const answer = (seconds: number, { times = 1, model = 'm', isStream = true } = {}): void => {
  for (let n = 0; n < times; n += 1) {
    const wait = begin(model, isStream);
    pass(seconds);
    waits.end(wait, true);
  }
};
/** Returns after how many seconds an attempt that hangs counts as slow, or null if it doesn't within ten minutes. */
const secondsUntilSlow = (model = 'm', isStream = true): number | null => {
  const wait = begin(model, isStream);
  for (let seconds = 1; seconds <= 600; seconds += 1) {
    pass(1);
    if (!wait.isSlow) continue;
    waits.end(wait, false);
    return seconds;
  }
  return null;
};

test('reports an attempt once if its first token is unusually late', () => {
  answer(1, { times: 20 });
  expect(secondsUntilSlow()).toBe(11);
  pass(600);
  expect(slow).toMatchObject([{ projectId: 'acme', provider: 'one' }]);
  expect(waits.countSlow().get('one')).toBe(1);
});

test("doesn't report an attempt as slow after it has ended", () => {
  answer(1, { times: 20 });
  waits.end(begin(), false);
  pass(600);
  expect(slow).toEqual([]);
});

test('allows more time for a model that usually takes a minute to respond', () => {
  answer(60, { times: 20 });
  expect(secondsUntilSlow()).toBe(241);
});

test('allows a minute for the first response of a model without history', () => {
  expect(secondsUntilSlow()).toBe(61);
  answer(1, { times: 19 });
  expect(secondsUntilSlow()).toBe(61);
  answer(1);
  expect(secondsUntilSlow()).toBe(11);
});

test('tracks response times separately for each model and for calls without streaming', () => {
  answer(1, { times: 20 });
  answer(30, { times: 20, isStream: false });
  answer(20, { times: 20, model: 'other' });
  expect([secondsUntilSlow(), secondsUntilSlow('m', false), secondsUntilSlow('other')]).toEqual([11, 121, 81]);
});

test('adapts to a model that stays slow, but barely to a single slow response', () => {
  answer(1, { times: 50 });
  answer(200);
  expect(secondsUntilSlow()).toBe(13);
  answer(1, { times: 20 });
  expect(secondsUntilSlow()).toBe(11);
  answer(30, { times: 20 });
  expect(secondsUntilSlow()).toBeGreaterThan(120);
});

test("responses that never arrive don't raise the slowness threshold", () => {
  answer(1, { times: 20 });
  for (let n = 0; n < 50; n += 1) expect(secondsUntilSlow()).toBe(11);
  expect(waits.countSlow().get('one')).toBe(50);
});

test('the slowness threshold follows the 95th percentile of response times', () => {
  for (let n = 0; n < 200; n += 1) answer(n % 10 === 0 ? 40 : 2);
  const seconds = secondsUntilSlow() ?? 0;
  expect(seconds).toBeGreaterThan(100);
  for (let n = 0; n < 2_000; n += 1) answer(n % 100 === 0 ? 40 : 2);
  expect(secondsUntilSlow()).toBeLessThan(20);
});
