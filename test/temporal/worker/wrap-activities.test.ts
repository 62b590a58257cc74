import { describe, expect, test } from '@jest/globals';
import { ApplicationFailure, CancelledFailure, DefaultFailureConverter, defaultPayloadConverter } from '@temporalio/common';
import { gatewayError } from '../../../src/core/errors.ts';
import { wrapActivities } from '../../../src/temporal/worker/wrap-activities.ts';
import { createTestLog } from '../../support/temporal.ts';

const planted = 'the patient said she is pregnant';

async function failureOf(activity: () => Promise<unknown>): Promise<{ error: unknown; proto: string; logged: unknown }> {
  const { logger, lines } = createTestLog();
  const error = await wrapActivities({ activity }, logger)
    ['activity']?.()
    .catch((thrown: unknown) => thrown);
  const proto = JSON.stringify(new DefaultFailureConverter().errorToFailure(error, defaultPayloadConverter));
  return { error, proto, logged: lines[0]?.fields['err'] };
}

describe('results and errors of activities', () => {
  test('returns the result of the activity', async () => {
    const { logger } = createTestLog();
    expect(await wrapActivities({ count: async () => ({ kind: 'read' }) }, logger)['count']?.()).toEqual({ kind: 'read' });
  });

  test('replaces the message of a failed activity with a fixed sentence', async () => {
    const original = gatewayError('query_failed', { message: planted, cause: new Error(planted) });
    const { error, proto, logged } = await failureOf(() => Promise.reject(original));
    expect(error).toBeInstanceOf(ApplicationFailure);
    expect(error).toMatchObject({ type: 'query_failed', message: 'the database query failed', nonRetryable: false });
    expect(proto).not.toContain('patient');
    expect(proto).not.toContain('.ts');
    expect(logged).toBe(original);
  });

  test('reports unknown errors of activities as internal_error', async () => {
    const { error, proto } = await failureOf(() => Promise.reject(new TypeError(planted, { cause: planted })));
    expect(error).toMatchObject({ type: 'internal_error', message: 'internal error' });
    expect(proto).not.toContain('patient');
  });

  test('fails an activity that returns text', async () => {
    const { error, proto } = await failureOf(async () => ({ title: planted }));
    expect(error).toMatchObject({ type: 'internal_error' });
    expect(proto).not.toContain('patient');
  });

  test('reports a cancelled activity as cancelled', async () => {
    const { error, proto } = await failureOf(() => Promise.reject(new CancelledFailure(planted)));
    expect(error).toBeInstanceOf(CancelledFailure);
    expect(proto).not.toContain('patient');
  });
});
