import { describe, expect, test } from '@jest/globals';
import type { VendorErrorKind } from '../../src/core/errors.ts';
import { VendorError } from '../../src/core/errors.ts';
import type { FailureKind } from '../../src/failover/classify-failure.ts';
import { classifyFailure, isProviderFailure, retryDelay } from '../../src/failover/classify-failure.ts';

describe('what a vendor status means', () => {
  test.each<[number, FailureKind, boolean]>([
    // A refusal speaks about the request (shapes 21).
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
    // A fault of the provider row.
    [401, 'failed', false],
    [402, 'failed', false],
    [403, 'failed', false],
    // The vendor asks for another try.
    [408, 'failed', false],
    [409, 'failed', false],
    [429, 'rate_limited', false],
    // The vendor is broken.
    [500, 'failed', true],
    [502, 'failed', true],
    [503, 'failed', true],
    [504, 'failed', true],
    [529, 'failed', true],
    // Redirects are not followed.
    [301, 'failed', false],
    [307, 'failed', false],
  ])('%p: %s, counts against the breaker: %p', (status, kind, isFault) => {
    const error = new VendorError('status', 'x', { status });
    expect(classifyFailure(error)).toBe(kind);
    expect(isProviderFailure(error)).toBe(isFault);
  });
});

describe('what other faults mean', () => {
  test.each<[VendorErrorKind, number | null, FailureKind, boolean]>([
    ['connect', null, 'failed', true],
    ['timeout', null, 'failed', true],
    ['unreadable', 200, 'failed', true],
    ['broken', 200, 'failed', true],
    ['aborted', null, 'aborted', false],
    ['aborted', 500, 'aborted', false],
  ])('%s with status %p: %s, counts against the breaker: %p', (fault, status, kind, isFault) => {
    const error = new VendorError(fault, 'x', { status });
    expect(classifyFailure(error)).toBe(kind);
    expect(isProviderFailure(error)).toBe(isFault);
  });
});

describe('waitBeforeRetry', () => {
  test.each<[string, number | null | undefined, number | null, number | null]>([
    ['the pause the vendor asks for', 5000, null, 5000],
    ['no pause', 0, null, 0],
    ['a second when it names none', undefined, null, 1000],
    ['at most a minute', 3_600_000, null, 60_000],
    ['none where no wait helps', null, null, null],
    ['none where no wait helps, also within a deadline', null, 60_000, null],
    ['shorter than the deadline leaves', 5000, 5001, 5000],
    ['not as long as the deadline leaves', 5000, 5000, null],
    ['not longer than the deadline leaves', 5000, 100, null],
    ['the minute counts, not what was asked for', 3_600_000, 90_000, 60_000],
    ['the usual second within a short deadline', undefined, 900, null],
    ['nothing to wait, but nothing left', 0, 0, null],
  ])('%s', (_name, retryAfterMs, remainingMs, waitMs) => {
    const error = new VendorError('status', 'x', { status: 429, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) });
    expect(retryDelay(error, remainingMs)).toBe(waitMs);
  });
});
