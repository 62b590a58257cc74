/**
 * Makes activities safe to register with a worker. Failures are stored in the history of the workflow, so we replace
 * each error by a failure that contains only an error code and the fixed message for this code. It has no cause, stack
 * or details. The original error is logged. If the workflow retries the activity itself (`workflows/retries.ts`), we
 * tell Temporal not to.
 */
import { asyncLocalStorage } from '@temporalio/activity';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { retriedByWorkflow } from '../../../workflows/contract.ts';
import { errorSpecs, GatewayError } from '../../core/errors.ts';
import { isObject } from '../../core/json/narrow.ts';
import type { Logger } from '../../observability/logger.ts';
import { checkPayload } from '../payloads/payloads.ts';

type Activity = (...inputs: never[]) => Promise<unknown>;

export function wrapActivities(activities: object, logger: Logger): Record<string, Activity> {
  const wrapped: Record<string, Activity> = {};
  for (const [name, activity] of Object.entries(activities)) {
    wrapped[name] = async (...inputs) => {
      try {
        const result: unknown = await activity(...inputs);
        // The codec also checks the result. But if the codec rejects it, the SDK writes the error with its stack to the
        // history, so check the result here first.
        checkPayload(result);
        return result;
      } catch (error) {
        throw toSafeFailure(name, error, logger);
      }
    };
  }
  return wrapped;
}

function toSafeFailure(activity: string, error: unknown, logger: Logger): Error {
  if (error instanceof CancelledFailure || isAbort(error)) return withoutStack(new CancelledFailure('the activity was cancelled'));
  const code = error instanceof GatewayError ? error.code : 'internal_error';
  logger.warn({ err: error, activity, code }, 'activity failed');
  return withoutStack(ApplicationFailure.create({ message: errorSpecs[code].message, type: code, nonRetryable: isRetriedByWorkflow() }));
}

/** Returns false for local activities and for those that an older version has scheduled. Temporal may retry them. */
function isRetriedByWorkflow(): boolean {
  const policy = asyncLocalStorage.getStore()?.info.retryPolicy;
  return policy?.nonRetryableErrorTypes?.includes(retriedByWorkflow) ?? false;
}

/** The stack would store file paths of this machine in the history. */
function withoutStack<Failure extends Error>(failure: Failure): Failure {
  failure.stack = `${failure.name}: ${failure.message}`;
  return failure;
}

function isAbort(error: unknown): boolean {
  return isObject(error) && error['name'] === 'AbortError';
}
