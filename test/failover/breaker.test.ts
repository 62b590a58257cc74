import { beforeEach, describe, expect, test } from '@jest/globals';
import type { BreakerReport, Breakers } from '../../src/failover/breaker.ts';
import { createBreakers } from '../../src/failover/breaker.ts';

const start = Date.parse('2026-11-20T10:00:00Z');
const second = 1000;

let now = start;
let breakers: Breakers = createBreakers({ now: () => now });

beforeEach(() => {
  now = start;
  breakers = createBreakers({ now: () => now });
});

const isAdmitted = (): boolean => breakers.tryAcquire('acme', 'openai');
const fail = (times = 1): void => {
  for (let n = 0; n < times; n += 1) breakers.recordFailure('acme', 'openai');
};
const succeed = (times = 1): void => {
  for (let n = 0; n < times; n += 1) breakers.recordSuccess('acme', 'openai');
};
/** Simulates streams whose content begins and that the vendor ends. */
const stream = (isBroken: boolean, times = 1): void => {
  for (let n = 0; n < times; n += 1) {
    breakers.recordSuccess('acme', 'openai', false);
    breakers.recordStreamEnd('acme', 'openai', isBroken);
  }
};
const report = (): BreakerReport | undefined => breakers.report('acme', ['openai'])[0];

test('admits calls again after the clock jumps back an hour', () => {
  fail(5);
  breakers.coolDown('acme', 'cooling', now + 60 * second);
  now -= 3_600 * second;
  expect([isAdmitted(), breakers.tryAcquire('acme', 'cooling')]).toEqual([true, true]);
  succeed(2);
  expect(report()).toMatchObject({ state: 'closed', failures: 0 });
});

describe('a closed breaker', () => {
  test('admits an unknown provider', () => {
    expect(isAdmitted()).toBe(true);
    expect(report()).toEqual({ provider: 'openai', state: 'closed', failures: 0, opened_at: null, retry_at: null });
  });

  test('opens after five failures in a row', () => {
    fail(4);
    expect(isAdmitted()).toBe(true);
    expect(report()).toMatchObject({ state: 'closed', failures: 4, opened_at: null, retry_at: null });
    fail();
    expect(isAdmitted()).toBe(false);
    expect(report()).toEqual({
      provider: 'openai',
      state: 'open',
      failures: 5,
      opened_at: '2026-11-20T10:00:00Z',
      retry_at: '2026-11-20T10:00:30Z',
    });
  });

  test('resets the count of failures after a success', () => {
    for (let n = 0; n < 4; n += 1) {
      fail(4);
      succeed(5);
    }
    expect(isAdmitted()).toBe(true);
    expect(report()?.failures).toBe(0);
  });

  test('opens if half of twenty attempts within a minute fail', () => {
    for (let n = 0; n < 9; n += 1) {
      succeed();
      fail();
    }
    succeed();
    expect(report()?.state).toBe('closed');
    fail();
    expect(report()?.state).toBe('open');
  });

  test('keeps the breaker closed if fewer than half of the attempts fail', () => {
    for (let n = 0; n < 30; n += 1) {
      succeed(2);
      fail();
    }
    expect(report()?.state).toBe('closed');
  });

  test('does not count attempts older than a minute', () => {
    for (let n = 0; n < 9; n += 1) {
      succeed();
      fail();
    }
    now += 60 * second;
    succeed();
    fail();
    expect(report()?.state).toBe('closed');
  });

  test('uses a sliding window instead of calendar minutes', () => {
    succeed();
    now += 50 * second;
    for (let n = 0; n < 5; n += 1) {
      succeed();
      fail();
    }
    now += 15 * second;
    for (let n = 0; n < 5; n += 1) {
      succeed();
      fail();
    }
    expect(report()?.state).toBe('open');
  });
});

describe('broken streams', () => {
  test('opens the breaker after five broken streams in a row', () => {
    stream(true, 4);
    expect(report()).toMatchObject({ state: 'closed', failures: 4 });
    stream(true);
    expect(report()).toMatchObject({ state: 'open', failures: 5 });
  });

  test.each(['stream', 'response'])('resets the count of broken streams after a complete %s', (complete) => {
    for (let n = 0; n < 5; n += 1) {
      stream(true, 4);
      if (complete === 'stream') stream(false, 5);
      else succeed(5);
    }
    expect(report()?.state).toBe('closed');
  });

  test('counts broken streams towards the failure rate', () => {
    for (let n = 0; n < 10; n += 1) {
      stream(true);
      expect(report()?.state).toBe('closed');
      stream(false);
    }
    stream(true);
    expect(report()?.state).toBe('open');
  });

  test('keeps an open breaker open until streams complete', () => {
    stream(true, 5);
    now += 30 * second;
    expect(isAdmitted()).toBe(true);
    breakers.recordSuccess('acme', 'openai', false);
    expect([report()?.state, isAdmitted()]).toEqual(['half_open', false]);
    breakers.recordStreamEnd('acme', 'openai', true);
    expect(report()).toMatchObject({ state: 'open', retry_at: '2026-11-20T10:01:30Z' });
    now += 60 * second;
    expect(isAdmitted()).toBe(true);
    stream(false, 2);
    expect(report()?.state).toBe('closed');
  });
});

describe('an open breaker', () => {
  test('admits no call for 30 s, then one at a time', () => {
    fail(5);
    now += 30 * second - 1;
    expect(isAdmitted()).toBe(false);
    now += 1;
    expect(isAdmitted()).toBe(true);
    expect(report()).toMatchObject({ state: 'half_open', opened_at: '2026-11-20T10:00:00Z' });
    expect(isAdmitted()).toBe(false);
  });

  test("doesn't keep the breaker open longer after more failures", () => {
    fail(5);
    now += 20 * second;
    fail(10);
    expect(report()).toMatchObject({ failures: 15, retry_at: '2026-11-20T10:00:30Z' });
  });

  test('counts a failure after the open period as a failed probe', () => {
    fail(5);
    now += 40 * second;
    fail();
    expect(report()).toMatchObject({ state: 'open', opened_at: '2026-11-20T10:00:00Z', retry_at: '2026-11-20T10:01:40Z' });
  });

  test('closes after successes of calls that were already running', () => {
    fail(5);
    succeed();
    expect(report()?.state).toBe('half_open');
    succeed();
    expect(report()).toMatchObject({ state: 'closed', failures: 0 });
    expect(isAdmitted()).toBe(true);
  });
});

describe('a half-open breaker', () => {
  beforeEach(() => {
    fail(5);
    now += 30 * second;
    isAdmitted();
  });

  test('closes after two successes', () => {
    succeed();
    expect(report()?.state).toBe('half_open');
    expect(isAdmitted()).toBe(true);
    succeed();
    expect(report()).toEqual({ provider: 'openai', state: 'closed', failures: 0, opened_at: null, retry_at: null });
  });

  test('opens again after one failure, for twice as long', () => {
    for (const openSeconds of [60, 120, 240, 300, 300]) {
      fail();
      now += openSeconds * second - 1;
      expect(isAdmitted()).toBe(false);
      now += 1;
      expect(isAdmitted()).toBe(true);
    }
  });

  test('ignores a success from before it opened', () => {
    succeed();
    fail();
    now += 60 * second;
    isAdmitted();
    succeed();
    expect(report()?.state).toBe('half_open');
  });

  test('opens for only 30 s again once it has closed', () => {
    fail();
    now += 60 * second;
    succeed(2);
    fail(5);
    now += 30 * second;
    expect(isAdmitted()).toBe(true);
  });

  test('releases the slot of a probe without a result after ten seconds', () => {
    now += 10 * second - 1;
    expect(isAdmitted()).toBe(false);
    now += 1;
    expect(isAdmitted()).toBe(true);
  });
});

describe('cooldown after a 429', () => {
  test('admits no call until it ends', () => {
    breakers.coolDown('acme', 'openai', now + 5 * second);
    expect(isAdmitted()).toBe(false);
    expect(report()).toMatchObject({ state: 'closed', failures: 0 });
    now += 5 * second;
    expect(isAdmitted()).toBe(true);
  });

  test('keeps the longest of several cooldowns', () => {
    breakers.coolDown('acme', 'openai', now + 5 * second);
    breakers.coolDown('acme', 'openai', now + 1 * second);
    now += 2 * second;
    expect(isAdmitted()).toBe(false);
  });

  test('limits a cooldown to five minutes', () => {
    breakers.coolDown('acme', 'openai', now + 1e18);
    now += 300 * second - 1;
    expect(isAdmitted()).toBe(false);
    now += 1;
    expect(isAdmitted()).toBe(true);
  });

  test("doesn't count a 429 as a failure or a success", () => {
    fail(4);
    breakers.coolDown('acme', 'openai', now + second);
    fail();
    expect(report()?.state).toBe('open');
  });

  test("doesn't end a cooldown after a success", () => {
    breakers.coolDown('acme', 'openai', now + 90 * second);
    succeed();
    expect(isAdmitted()).toBe(false);
    fail(5);
    now += 30 * second;
    succeed(2);
    expect(report()?.state).toBe('closed');
    expect(isAdmitted()).toBe(false);
    now += 60 * second;
    expect(isAdmitted()).toBe(true);
  });

  test('releases the probe slot', () => {
    fail(5);
    now += 30 * second;
    expect(isAdmitted()).toBe(true);
    breakers.coolDown('acme', 'openai', now + 2 * second);
    expect(isAdmitted()).toBe(false);
    now += 2 * second;
    expect(isAdmitted()).toBe(true);
  });
});

test('keeps separate breakers for each project and provider', () => {
  fail(5);
  expect(breakers.tryAcquire('other', 'openai')).toBe(true);
  expect(breakers.tryAcquire('acme', 'anthropic')).toBe(true);
  expect(breakers.report('acme', ['anthropic', 'openai']).map(({ provider, state }) => [provider, state])).toEqual([
    ['anthropic', 'closed'],
    ['openai', 'open'],
  ]);
  expect(breakers.report('acme', [])).toEqual([]);
});

test('checks whether a call would be admitted without taking a probe slot', () => {
  fail(5);
  expect(breakers.canAcquire('acme', 'openai')).toBe(false);
  now += 30 * second;
  expect(breakers.canAcquire('acme', 'openai')).toBe(true);
  expect(report()).toMatchObject({ state: 'open' });
  expect(isAdmitted()).toBe(true);
  expect(breakers.canAcquire('acme', 'openai')).toBe(false);
});
