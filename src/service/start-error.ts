import { ConfigError } from '../config/config.ts';
import { errorSummary } from '../core/error-messages.ts';

/** Thrown if the service can't start or continue. The message tells the operator why. */
export class StartError extends Error {}

/**
 * If `work` fails because of something that the operator can fix, throws a StartError whose message begins with
 * `sentence`.
 */
export async function wrapStartError<Result>(sentence: string, work: Promise<Result>): Promise<Result> {
  try {
    return await work;
  } catch (cause) {
    // Don't wrap a ConfigError, because its message already names the TLS files for Temporal. TypeErrors and
    // RangeErrors are bugs, so we need their stack.
    if (cause instanceof ConfigError || cause instanceof TypeError || cause instanceof RangeError) throw cause;
    throw new StartError(`${sentence}: ${errorSummary(cause)}`, { cause });
  }
}
