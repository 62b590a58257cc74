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

test('an open circuit breaker admits calls again if the clock jumps back an hour', () => {
  fail(5);
  breakers.coolDown('acme', 'cooling', now + 60 * second);
  now -= 3_600 * second;
  expect([isAdmitted(), breakers.tryAcquire('acme', 'cooling')]).toEqual([true, true]);
  succeed(2);
  expect(report()).toMatchObject({ state: 'closed', failures: 0 });
});

describe('a closed breaker', () => {
  test("the circuit breaker admits calls to a provider that it hasn't seen before", () => {
    expect(isAdmitted()).toBe(true);
    expect(report()).toEqual({ provider: 'openai', state: 'closed', failures: 0, opened_at: null, retry_at: null });
  });

  test('the circuit breaker opens after five failures in a row', () => {
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

  test('a success resets the count of consecutive failures', () => {
    for (let n = 0; n < 4; n += 1) {
      fail(4);
      succeed(5);
    }
    expect(isAdmitted()).toBe(true);
    expect(report()?.failures).toBe(0);
  });

  test('the circuit breaker opens if half of 20 attempts within a minute fail', () => {
    for (let n = 0; n < 9; n += 1) {
      succeed();
      fail();
    }
    succeed();
    expect(report()?.state).toBe('closed');
    fail();
    expect(report()?.state).toBe('open');
  });

  test('the circuit breaker stays closed if fewer than half of the attempts fail', () => {
    for (let n = 0; n < 30; n += 1) {
      succeed(2);
      fail();
    }
    expect(report()?.state).toBe('closed');
  });

  test('the failure rate ignores attempts older than a minute', () => {
    for (let n = 0; n < 9; n += 1) {
      succeed();
      fail();
    }
    now += 60 * second;
    succeed();
    fail();
    expect(report()?.state).toBe('closed');
  });

  test('the failure rate uses a sliding window instead of calendar minutes', () => {
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
  test('the circuit breaker opens after five broken streams in a row', () => {
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

  test('broken streams count towards the failure rate', () => {
    for (let n = 0; n < 10; n += 1) {
      stream(true);
      expect(report()?.state).toBe('closed');
      stream(false);
    }
    stream(true);
    expect(report()?.state).toBe('open');
  });

  test('a breaker opened by broken streams closes only after complete streams', () => {
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
  test('an open circuit breaker admits no calls for 30 s, then one call at a time', () => {
    fail(5);
    now += 30 * second - 1;
    expect(isAdmitted()).toBe(false);
    now += 1;
    expect(isAdmitted()).toBe(true);
    expect(report()).toMatchObject({ state: 'half_open', opened_at: '2026-11-20T10:00:00Z' });
    expect(isAdmitted()).toBe(false);
  });

  test("further failures don't keep a circuit breaker open for longer", () => {
    fail(5);
    now += 20 * second;
    fail(10);
    expect(report()).toMatchObject({ failures: 15, retry_at: '2026-11-20T10:00:30Z' });
  });

  test('an attempt that fails after the open period counts as a failed probe', () => {
    fail(5);
    now += 40 * second;
    fail();
    expect(report()).toMatchObject({ state: 'open', opened_at: '2026-11-20T10:00:00Z', retry_at: '2026-11-20T10:01:40Z' });
  });

  test('an open breaker closes if calls that were already running succeed', () => {
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

  test('a half-open breaker closes after two successes', () => {
    succeed();
    expect(report()?.state).toBe('half_open');
    expect(isAdmitted()).toBe(true);
    succeed();
    expect(report()).toEqual({ provider: 'openai', state: 'closed', failures: 0, opened_at: null, retry_at: null });
  });

  test('a half-open breaker opens again after one failure, for twice as long', () => {
    for (const openSeconds of [60, 120, 240, 300, 300]) {
      fail();
      now += openSeconds * second - 1;
      expect(isAdmitted()).toBe(false);
      now += 1;
      expect(isAdmitted()).toBe(true);
    }
  });

  test('a half-open breaker forgets earlier successes when it opens again', () => {
    succeed();
    fail();
    now += 60 * second;
    isAdmitted();
    succeed();
    expect(report()?.state).toBe('half_open');
  });

  test('the open period is 30 s again after the breaker has closed', () => {
    fail();
    now += 60 * second;
    succeed(2);
    fail(5);
    now += 30 * second;
    expect(isAdmitted()).toBe(true);
  });

  test('releases a probe slot if there is no result after ten seconds', () => {
    now += 10 * second - 1;
    expect(isAdmitted()).toBe(false);
    now += 1;
    expect(isAdmitted()).toBe(true);
  });
});

describe('cooldown after a 429', () => {
  test("doesn't admit calls to a provider until its cooldown ends", () => {
    breakers.coolDown('acme', 'openai', now + 5 * second);
    expect(isAdmitted()).toBe(false);
    expect(report()).toMatchObject({ state: 'closed', failures: 0, cooling_until: '2026-11-20T10:00:05Z' });
    now += 5 * second;
    expect(isAdmitted()).toBe(true);
    expect(report()).not.toHaveProperty('cooling_until');
  });

  test('the longest of several cooldowns applies', () => {
    breakers.coolDown('acme', 'openai', now + 5 * second);
    breakers.coolDown('acme', 'openai', now + 1 * second);
    now += 2 * second;
    expect(isAdmitted()).toBe(false);
  });

  test('a cooldown never lasts longer than five minutes', () => {
    breakers.coolDown('acme', 'openai', now + 1e18);
    now += 300 * second - 1;
    expect(isAdmitted()).toBe(false);
    now += 1;
    expect(isAdmitted()).toBe(true);
  });

  test("the circuit breaker doesn't count a 429 as a failure or a success", () => {
    fail(4);
    breakers.coolDown('acme', 'openai', now + second);
    fail();
    expect(report()?.state).toBe('open');
  });

  test("a success doesn't end a cooldown", () => {
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

  test('a cooldown releases the probe slot', () => {
    fail(5);
    now += 30 * second;
    expect(isAdmitted()).toBe(true);
    breakers.coolDown('acme', 'openai', now + 2 * second);
    expect(isAdmitted()).toBe(false);
    now += 2 * second;
    expect(isAdmitted()).toBe(true);
  });
});

test('each project and provider has its own circuit breaker', () => {
  fail(5);
  expect(breakers.tryAcquire('other', 'openai')).toBe(true);
  expect(breakers.tryAcquire('acme', 'anthropic')).toBe(true);
  expect(breakers.report('acme', ['anthropic', 'openai']).map(({ provider, state }) => [provider, state])).toEqual([
    ['anthropic', 'closed'],
    ['openai', 'open'],
  ]);
  expect(breakers.report('acme', [])).toEqual([]);
});

test("doesn't take a probe slot when it only checks if a call would be admitted", () => {
  fail(5);
  expect(breakers.canAcquire('acme', 'openai')).toBe(false);
  now += 30 * second;
  expect(breakers.canAcquire('acme', 'openai')).toBe(true);
  expect(report()).toMatchObject({ state: 'open' });
  expect(isAdmitted()).toBe(true);
  expect(breakers.canAcquire('acme', 'openai')).toBe(false);
});
