/** Errors that prevent a start, each as one sentence for the operator. */
import { ConfigError } from '../config/config.ts';
import { errorSummary } from '../core/error-messages.ts';

/** Why a service cannot start or continue, in one sentence for the operator. */
export class StartError extends Error {}

/** Awaits `work` and wraps an error that the operator can fix into a StartError that begins with `sentence`. */
export async function wrapStartError<Result>(sentence: string, work: Promise<Result>): Promise<Result> {
  try {
    return await work;
  } catch (cause) {
    // A ConfigError names its own files (Temporal's TLS); TypeErrors and RangeErrors are bugs and keep their stack.
    if (cause instanceof ConfigError || cause instanceof TypeError || cause instanceof RangeError) throw cause;
    throw new StartError(`${sentence}: ${errorSummary(cause)}`, { cause });
  }
}
