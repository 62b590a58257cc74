/**
 * Wraps activities so that we can register them with a worker. Each error becomes a failure with an error code and its
 * fixed sentence, but without the cause, stack or details, because failures are stored in the workflow's history. We
 * log the original error.
 */
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { errorSpecs, GatewayError } from '../../core/errors.ts';
import { isObject } from '../../core/json/narrow.ts';
import type { Logger } from '../../observability/logger.ts';
import { checkPayload } from '../payloads/payloads.ts';

type Activity = (...inputs: never[]) => Promise<unknown>;

/** Returns the same activities in a form that's safe to register with a worker. */
export function wrapActivities(activities: object, logger: Logger): Record<string, Activity> {
  const wrapped: Record<string, Activity> = {};
  for (const [name, activity] of Object.entries(activities)) {
    wrapped[name] = async (...inputs) => {
      try {
        const result: unknown = await activity(...inputs);
        // Check the result ourselves. If the codec rejected it, the SDK would store the error with its stack in the
        // history.
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
  return withoutStack(ApplicationFailure.create({ message: errorSpecs[code].message, type: code }));
}

/** Removes the stack, because it would only reveal paths of this machine in the history. */
function withoutStack<Failure extends Error>(failure: Failure): Failure {
  failure.stack = `${failure.name}: ${failure.message}`;
  return failure;
}

function isAbort(error: unknown): boolean {
  return isObject(error) && error['name'] === 'AbortError';
}
