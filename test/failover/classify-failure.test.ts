import { describe, expect, test } from '@jest/globals';
import type { VendorErrorKind } from '../../src/core/errors.ts';
import { VendorError } from '../../src/core/errors.ts';
import type { FailureKind } from '../../src/failover/classify-failure.ts';
import { classifyFailure, isFinalRefusal, isProviderFailure, retryDelay, waitOfLimitedChain } from '../../src/failover/classify-failure.ts';

describe('classification of vendor statuses', () => {
  test.each<[number, FailureKind, boolean]>([
    // The vendor rejects the request.
    [400, 'refused', false],
    [413, 'refused', false],
    [415, 'refused', false],
    [422, 'refused', false],
    [418, 'refused', false],
    [451, 'refused', false],
    // The vendor does not serve this path.
    [404, 'failed', false],
    [405, 'failed', false],
    [501, 'failed', false],
    // The provider's configuration is wrong.
    [401, 'failed', false],
    [402, 'failed', false],
    [403, 'failed', false],
    // The vendor requests a retry.
    [408, 'failed', false],
    [409, 'failed', false],
    [429, 'rate_limited', false],
    // The vendor fails.
    [500, 'failed', true],
    [502, 'failed', true],
    [503, 'failed', true],
    [504, 'failed', true],
    [529, 'failed', true],
    // Redirects are not followed.
    [301, 'failed', false],
    [307, 'failed', false],
  ])('classifies %p as %s (counts against the breaker: %p)', (status, kind, isFailure) => {
    const error = new VendorError('status', 'x', { status });
    expect(classifyFailure(error)).toBe(kind);
    expect(isProviderFailure(error)).toBe(isFailure);
  });
});

describe('classification of other errors', () => {
  test.each<[VendorErrorKind, number | null, FailureKind, boolean]>([
    ['connect', null, 'failed', true],
    ['timeout', null, 'failed', true],
    ['unreadable', 200, 'failed', true],
    ['broken', 200, 'failed', true],
    ['aborted', null, 'aborted', false],
    ['aborted', 500, 'aborted', false],
  ])('classifies %s with status %p as %s (counts against the breaker: %p)', (errorKind, status, kind, isFailure) => {
    const error = new VendorError(errorKind, 'x', { status });
    expect(classifyFailure(error)).toBe(kind);
    expect(isProviderFailure(error)).toBe(isFailure);
  });
});

describe('retryDelay', () => {
  test.each<[string, number | null | undefined, number | null, number | null]>([
    ['the delay the vendor requests', 5000, null, 5000],
    ['no delay', 0, null, 0],
    ['one second without Retry-After', undefined, null, 1000],
    ['at most one minute', 3_600_000, null, 60_000],
    ['no retry for an exhausted quota', null, null, null],
    ['no retry for an exhausted quota within a deadline', null, 60_000, null],
    ['a delay that ends before the deadline', 5000, 5001, 5000],
    ['no retry exactly at the deadline', 5000, 5000, null],
    ['no retry after the deadline', 5000, 100, null],
    ['the maximum if it ends before the deadline', 3_600_000, 90_000, 60_000],
    ['no retry if the default delay is too long', undefined, 900, null],
    ['no retry without time left', 0, 0, null],
  ])('the retry delay after a 429: %s', (_name, retryAfterMs, remainingMs, waitMs) => {
    const error = new VendorError('status', 'x', { status: 429, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) });
    expect(retryDelay(error, remainingMs)).toBe(waitMs);
  });
});

test.each([
  [302, false],
  [400, true],
  [401, false],
  [404, true],
  [408, true],
  [429, false],
  [499, true],
  [500, false],
])('returns the vendor status %p to the caller if every model fails: %p', (status, isFinal) => {
  expect(isFinalRefusal(new VendorError('status', 'x', { status }))).toBe(isFinal);
});

describe('waitOfLimitedChain', () => {
  const wait = (...statuses: readonly (readonly [status: number, retryAfterMs?: number | null])[]) =>
    waitOfLimitedChain(
      statuses.map(([status, retryAfterMs], index) => ({
        candidate: { id: `one/m${index}` },
        error: new VendorError('status', 'x', { status, ...(retryAfterMs !== undefined && { retryAfterMs }) }),
      })),
    );

  test('the retry delay is the shortest delay of the busy vendors', () => {
    expect([wait([429, 9_000], [503, 5_000]), wait([429]), wait([529, 3_600_000])]).toEqual([5_000, 1_000, 60_000]);
  });

  test('the retry delay ignores refusals, configuration errors and exhausted vendor quotas', () => {
    expect([wait([400], [429, 5_000]), wait([401], [429, 5_000]), wait([429, null], [429, 5_000])]).toEqual([5_000, 5_000, 5_000]);
    expect([wait([400]), wait([429, null])]).toEqual([null, null]);
  });

  test("doesn't suggest a retry delay if another model may work again right away", () => {
    expect([wait([500], [429, 5_000]), wait([408], [429, 5_000]), wait([409], [429, 5_000])]).toEqual([null, null, null]);
  });
});
