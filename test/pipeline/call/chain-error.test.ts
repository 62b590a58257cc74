import { describe, expect, test } from '@jest/globals';
import { gatewayError, VendorError } from '../../../src/core/errors.ts';
import type { CallCancellation } from '../../../src/pipeline/call/cancellation.ts';
import { isContentRejected, refusalOf, toChainFailure } from '../../../src/pipeline/call/chain-error.ts';

const failuresOf = (statuses: readonly number[]) =>
  statuses.map((status, index) => {
    const model = `m${index}`;
    const candidate = { id: `one/${model}`, provider: 'one', model, dialect: 'chat', price: null, maxOutputTokens: null } as const;
    return { candidate, error: new VendorError('status', 'no', { status }) };
  });

test.each([
  [[400], 400, true],
  [[422, 400], 422, true],
  [[404], 404, false],
  [[404, 400], 404, false],
  [[400, 404], 400, false],
  [[408], 408, false],
])("returns the vendors' statuses %p as a %d (content rejected: %p)", (statuses, status, isRejected) => {
  const error = refusalOf(failuresOf(statuses));
  expect(error).toMatchObject({ code: 'upstream_refused', status });
  expect(error && isContentRejected(error)).toBe(isRejected);
});

test.each([[[401]], [[402]], [[403]], [[429]], [[500]], [[400, 500]], [[404, 429]]])(
  "doesn't treat the vendors' statuses %p as a refusal",
  (statuses) => {
    expect(refusalOf(failuresOf(statuses))).toBeNull();
  },
);

test('treats a 400 as a refusal even if the same model returned a 429 before', () => {
  const [limited, refused] = failuresOf([429, 400]);
  if (!limited || !refused) throw new Error('there are two failures');
  expect(refusalOf([limited, { ...refused, candidate: limited.candidate }])).toMatchObject({ status: 400 });
});

test("describes the refusal if the vendor's message is empty", () => {
  const [failure] = failuresOf([400]);
  if (!failure) throw new Error('there is a failure');
  const error = new VendorError('status', 'the vendor responded with 400', { status: 400, vendorMessage: '' });
  expect(refusalOf([{ ...failure, error }])).toMatchObject({ message: 'the vendor responded with 400' });
});

test('treats a guardrail block as rejected content', () => {
  expect(isContentRejected(gatewayError('guardrail_blocked'))).toBe(true);
  expect(isContentRejected(gatewayError('upstream_failed'))).toBe(false);
});

describe('a chain of models that all failed', () => {
  type Status = readonly [status: number, retryAfterMs?: number];
  const fail = (statuses: readonly Status[], remainingMs: number | null = null) => {
    const candidate = { id: 'one/m', provider: 'one', model: 'm', dialect: 'chat', price: null, maxOutputTokens: null } as const;
    const failures = statuses.map(([status, retryAfterMs]) => ({
      candidate,
      error: new VendorError('status', 'no', { status, ...(retryAfterMs !== undefined && { retryAfterMs }) }),
    }));
    const cancellation = { remainingMs: () => remainingMs, cancelledBy: () => null } as unknown as CallCancellation;
    return toChainFailure({ kind: 'exhausted', failures }, cancellation);
  };

  test('tells the caller to wait as long as the vendor asks, rounded up to full seconds', () => {
    expect(fail([[429, 4_001]])).toMatchObject({ outcome: 'failed', error: { status: 503, retryAfterSeconds: 5 } });
    expect(fail([[429, 50]])).toMatchObject({ error: { status: 503, retryAfterSeconds: 1 } });
  });

  test('reports that the deadline passed only if there would have been a retry', () => {
    expect(fail([[429, 5_000]], 1_000)).toMatchObject({ outcome: 'deadline' });
    expect(fail([[429, 5_000]], 9_000)).toMatchObject({ outcome: 'failed' });
    expect(
      fail(
        [
          [429, 5_000],
          [429, 5_000],
        ],
        1_000,
      ),
    ).toMatchObject({ outcome: 'failed' });
    expect(fail([[500]], 1_000)).toMatchObject({ outcome: 'failed', error: { status: 502 } });
  });

  test("reports the failure of the last vendor that was called, even if a later one's dialect can't express the request", () => {
    const [limited] = failuresOf([429]);
    const [, other] = failuresOf([400, 400]);
    if (!limited || !other) throw new Error('there are two failures');
    const untranslatable = { ...other, error: new VendorError('status', 'n: must be 1', { status: 400, isUntranslatable: true }) };
    const cancellation = { remainingMs: () => 100, cancelledBy: () => null } as unknown as CallCancellation;
    const { error, outcome } = toChainFailure({ kind: 'exhausted', failures: [limited, untranslatable] }, cancellation);
    expect(outcome).toBe('deadline');
    expect(error.message).toBe('client deadline exceeded; last attempt: one/m0: no');
  });
});
