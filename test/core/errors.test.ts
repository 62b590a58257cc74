import { describe, expect, test } from '@jest/globals';
import type { ErrorCode } from '../../src/core/errors.ts';
import { errorSpecs, GatewayError, gatewayError, VendorError } from '../../src/core/errors.ts';

/** The error codes of docs/api/reference.md#error-codes. */
const rows: { code: ErrorCode; status: number; retryAfterSeconds?: number }[] = [
  { code: 'missing_key', status: 401 },
  { code: 'invalid_key', status: 401 },
  { code: 'keystore_unavailable', status: 503 },
  { code: 'limits_unavailable', status: 503 },
  { code: 'no_db', status: 503 },
  { code: 'bad_json', status: 400 },
  { code: 'unsupported_media_type', status: 415 },
  { code: 'missing_model', status: 400 },
  { code: 'bad_model', status: 400 },
  { code: 'missing_operation', status: 400 },
  { code: 'missing_uri', status: 400 },
  { code: 'forbidden_target', status: 400 },
  { code: 'invalid_memory_mode', status: 400 },
  { code: 'invalid_memory_subject', status: 400 },
  { code: 'no_route', status: 400 },
  { code: 'upstream_failed', status: 502 },
  { code: 'upstream_error', status: 502 },
  { code: 'bad_upstream_response', status: 502 },
  { code: 'video_failed', status: 502 },
  { code: 'bad_shape', status: 500 },
  { code: 'tenant_capped', status: 429, retryAfterSeconds: 60 },
  { code: 'source_capped', status: 429, retryAfterSeconds: 60 },
  { code: 'credits_exhausted', status: 429, retryAfterSeconds: 3600 },
  { code: 'subscription_required', status: 402 },
  { code: 'budget_unavailable', status: 503, retryAfterSeconds: 5 },
  { code: 'guardrail_blocked', status: 403 },
  { code: 'bad_request', status: 400 },
  { code: 'forbidden', status: 403 },
  { code: 'not_found', status: 404 },
  { code: 'memory_off', status: 409 },
  { code: 'query_failed', status: 500 },
];

describe('error codes', () => {
  test.each(rows)('$code has status $status and retry-after $retryAfterSeconds', ({ code, status, retryAfterSeconds }) => {
    const row = errorSpecs[code];
    expect(row.status).toBe(status);
    expect(row.retryAfterSeconds).toBe(retryAfterSeconds);
    expect(row.message).not.toBe('');
  });
});

describe('gatewayError', () => {
  test('uses the default message and status of its error code', () => {
    const error = gatewayError('no_route');
    expect(error).toBeInstanceOf(GatewayError);
    expect(error).toMatchObject({ code: 'no_route', status: 400, message: 'no models available for route', name: 'GatewayError' });
  });

  test('accepts a custom error message and status', () => {
    const cause = new Error('inside');
    expect(gatewayError('upstream_refused', { message: 'too long', status: 413, cause })).toMatchObject({
      code: 'upstream_refused',
      status: 413,
      message: 'too long',
      cause,
    });
  });
});

test('records stack traces only for internal errors, not for vendor or client errors', () => {
  const { stackTraceLimit } = Error;
  const frame = /\n +at /;
  const vendorError = new VendorError('status', 'the vendor responded with 500');
  expect(vendorError.stack).not.toMatch(frame);
  expect(gatewayError('upstream_failed', { cause: vendorError }).stack).not.toMatch(frame);
  expect(gatewayError('tenant_capped').stack).not.toMatch(frame);
  expect(gatewayError('bad_shape').stack).toMatch(frame);
  expect(gatewayError('query_failed', { cause: new Error('the index is damaged') }).stack).toMatch(frame);
  expect(Error.stackTraceLimit).toBe(stackTraceLimit);
});

describe('VendorError', () => {
  test('distinguishes a missing retry-after delay from a delay of zero', () => {
    expect(new VendorError('status', 'x').retryAfterMs).toBeUndefined();
    expect(new VendorError('status', 'x', { retryAfterMs: 0 }).retryAfterMs).toBe(0);
    expect(new VendorError('status', 'x', { retryAfterMs: null }).retryAfterMs).toBeNull();
  });

  test("a vendor error has no status if the vendor didn't respond", () => {
    expect(new VendorError('connect', 'x')).toMatchObject({ kind: 'connect', status: null, vendorMessage: null });
  });
});
