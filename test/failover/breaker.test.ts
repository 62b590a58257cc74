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

const admits = (): boolean => breakers.tryAcquire('acme', 'openai');
const fail = (times = 1): void => {
  for (let n = 0; n < times; n += 1) breakers.recordFailure('acme', 'openai');
};
const succeed = (times = 1): void => {
  for (let n = 0; n < times; n += 1) breakers.recordSuccess('acme', 'openai');
};
const report = (): BreakerReport | undefined => breakers.report('acme', ['openai'])[0];

describe('a closed breaker', () => {
  test('admits a provider nobody has heard of', () => {
    expect(admits()).toBe(true);
    expect(report()).toEqual({ provider: 'openai', state: 'closed', failures: 0, opened_at: null, retry_at: null });
  });

  test('opens at the fifth fault in a row', () => {
    fail(4);
    expect(admits()).toBe(true);
    expect(report()).toMatchObject({ state: 'closed', failures: 4, opened_at: null, retry_at: null });
    fail();
    expect(admits()).toBe(false);
    expect(report()).toEqual({
      provider: 'openai',
      state: 'open',
      failures: 5,
      opened_at: '2026-11-20T10:00:00Z',
      retry_at: '2026-11-20T10:00:30Z',
    });
  });

  test('a success in between begins the row again', () => {
    for (let n = 0; n < 4; n += 1) {
      fail(4);
      succeed(5);
    }
    expect(admits()).toBe(true);
    expect(report()?.failures).toBe(0);
  });

  test('opens when half of twenty attempts within a minute failed', () => {
    for (let n = 0; n < 9; n += 1) {
      succeed();
      fail();
    }
    succeed();
    expect(report()?.state).toBe('closed');
    fail();
    expect(report()?.state).toBe('open');
  });

  test('stays closed below half, and below twenty attempts', () => {
    for (let n = 0; n < 30; n += 1) {
      succeed(2);
      fail();
    }
    expect(report()?.state).toBe('closed');
  });

  test('what is older than a minute does not count', () => {
    for (let n = 0; n < 9; n += 1) {
      succeed();
      fail();
    }
    now += 60 * second;
    succeed();
    fail();
    expect(report()?.state).toBe('closed');
  });

  test('the minute is any minute, not one of the clock', () => {
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

describe('an open breaker', () => {
  test('admits nobody for 30 s, then one at a time', () => {
    fail(5);
    now += 30 * second - 1;
    expect(admits()).toBe(false);
    now += 1;
    expect(admits()).toBe(true);
    expect(report()).toMatchObject({ state: 'half_open', opened_at: '2026-11-20T10:00:00Z' });
    expect(admits()).toBe(false);
  });

  test('further faults while it is open do not make it longer', () => {
    fail(5);
    now += 20 * second;
    fail(10);
    expect(report()).toMatchObject({ failures: 15, retry_at: '2026-11-20T10:00:30Z' });
  });

  test('a fault behind its time counts like that of a probe, also where nobody asked for admission', () => {
    fail(5);
    now += 40 * second;
    fail();
    expect(report()).toMatchObject({ state: 'open', opened_at: '2026-11-20T10:00:40Z', retry_at: '2026-11-20T10:01:40Z' });
  });

  test('successes of calls that were made anyway close it', () => {
    fail(5);
    succeed();
    expect(report()?.state).toBe('half_open');
    succeed();
    expect(report()).toMatchObject({ state: 'closed', failures: 0 });
    expect(admits()).toBe(true);
  });
});

describe('a half-open breaker', () => {
  beforeEach(() => {
    fail(5);
    now += 30 * second;
    admits();
  });

  test('closes after two successes', () => {
    succeed();
    expect(report()?.state).toBe('half_open');
    expect(admits()).toBe(true);
    succeed();
    expect(report()).toEqual({ provider: 'openai', state: 'closed', failures: 0, opened_at: null, retry_at: null });
  });

  test('opens again at one fault, for twice as long, up to five minutes', () => {
    for (const openSeconds of [60, 120, 240, 300, 300]) {
      fail();
      now += openSeconds * second - 1;
      expect(admits()).toBe(false);
      now += 1;
      expect(admits()).toBe(true);
    }
  });

  test('a success before the fault does not count later', () => {
    succeed();
    fail();
    now += 60 * second;
    admits();
    succeed();
    expect(report()?.state).toBe('half_open');
  });

  test('when it has closed, it opens for 30 s again', () => {
    fail();
    now += 60 * second;
    succeed(2);
    fail(5);
    now += 30 * second;
    expect(admits()).toBe(true);
  });

  test('a probe that never comes back is given up after ten seconds', () => {
    now += 10 * second - 1;
    expect(admits()).toBe(false);
    now += 1;
    expect(admits()).toBe(true);
  });
});

describe('cooling after a 429', () => {
  test('admits nobody until the time has come, and leaves the breaker as it is', () => {
    breakers.coolDown('acme', 'openai', now + 5 * second);
    expect(admits()).toBe(false);
    expect(report()).toMatchObject({ state: 'closed', failures: 0 });
    now += 5 * second;
    expect(admits()).toBe(true);
  });

  test('the longest pause holds', () => {
    breakers.coolDown('acme', 'openai', now + 5 * second);
    breakers.coolDown('acme', 'openai', now + 1 * second);
    now += 2 * second;
    expect(admits()).toBe(false);
  });

  test('five minutes are the most, whatever the vendor names', () => {
    breakers.coolDown('acme', 'openai', now + 1e18);
    now += 300 * second - 1;
    expect(admits()).toBe(false);
    now += 1;
    expect(admits()).toBe(true);
  });

  test('is no fault and no success', () => {
    fail(4);
    breakers.coolDown('acme', 'openai', now + second);
    fail();
    expect(report()?.state).toBe('open');
  });

  test('a success does not end it, neither in a closed breaker nor in one that it closes', () => {
    breakers.coolDown('acme', 'openai', now + 90 * second);
    succeed();
    expect(admits()).toBe(false);
    fail(5);
    now += 30 * second;
    succeed(2);
    expect(report()?.state).toBe('closed');
    expect(admits()).toBe(false);
    now += 60 * second;
    expect(admits()).toBe(true);
  });

  test('of a probe lets the next one come when it is over', () => {
    fail(5);
    now += 30 * second;
    expect(admits()).toBe(true);
    breakers.coolDown('acme', 'openai', now + 2 * second);
    expect(admits()).toBe(false);
    now += 2 * second;
    expect(admits()).toBe(true);
  });
});

test('every project and every provider has a breaker of its own', () => {
  fail(5);
  expect(breakers.tryAcquire('other', 'openai')).toBe(true);
  expect(breakers.tryAcquire('acme', 'anthropic')).toBe(true);
  expect(breakers.report('acme', ['anthropic', 'openai']).map(({ provider, state }) => [provider, state])).toEqual([
    ['anthropic', 'closed'],
    ['openai', 'open'],
  ]);
  expect(breakers.report('acme', [])).toEqual([]);
});
