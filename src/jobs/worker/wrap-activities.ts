/**
 * The edge between our activities and Temporal: what an activity throws becomes a failure with our code and its fixed sentence, without
 * cause, stack or details, because a failure is kept in the workflow's history (decisions 8). The original goes to the log.
 */
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { errorSpec, GatewayError } from '../../core/errors.ts';
import { isObject } from '../../core/json/narrow.ts';
import type { Logger } from '../../observability/logger.ts';
import { checkPayload } from '../payloads/payloads.ts';

type Activity = (...inputs: never[]) => Promise<unknown>;

/** The same activities, safe to be registered with a worker. */
export function wrapActivities(activities: object, logger: Logger): Record<string, Activity> {
  const wrapped: Record<string, Activity> = {};
  for (const [name, activity] of Object.entries(activities)) {
    wrapped[name] = async (...inputs) => {
      try {
        const result: unknown = await activity(...inputs);
        checkPayload(result); // Here, since the SDK would put the codec's refusal into the history with its stack.
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
  logger.warn({ err: error, activity, code }, 'an activity failed');
  return withoutStack(ApplicationFailure.create({ message: errorSpec(code).message, type: code }));
}

/** The stack of a failure goes into the history; ours tells nothing and names paths of this machine. */
function withoutStack<Failure extends Error>(failure: Failure): Failure {
  failure.stack = `${failure.name}: ${failure.message}`;
  return failure;
}

function isAbort(error: unknown): boolean {
  return isObject(error) && error['name'] === 'AbortError';
}
