/**
 * Wraps activities for registration with a worker. An error becomes a failure with an error code and its fixed sentence, without cause, stack
 * or details, because failures are stored in the workflow's history. The original error is logged.
 */
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { errorSpecs, GatewayError } from '../../core/errors.ts';
import { isObject } from '../../core/json/narrow.ts';
import type { Logger } from '../../observability/logger.ts';
import { checkPayload } from '../payloads/payloads.ts';

type Activity = (...inputs: never[]) => Promise<unknown>;

/** The same activities, safe to register with a worker. */
export function wrapActivities(activities: object, logger: Logger): Record<string, Activity> {
  const wrapped: Record<string, Activity> = {};
  for (const [name, activity] of Object.entries(activities)) {
    wrapped[name] = async (...inputs) => {
      try {
        const result: unknown = await activity(...inputs);
        checkPayload(result); // Checked here, because the SDK would store the codec's error in the history with its stack.
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

/** The stack is stored in the history; the gateway's own would only reveal paths of this machine. */
function withoutStack<Failure extends Error>(failure: Failure): Failure {
  failure.stack = `${failure.name}: ${failure.message}`;
  return failure;
}

function isAbort(error: unknown): boolean {
  return isObject(error) && error['name'] === 'AbortError';
}
