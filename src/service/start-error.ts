/** Why a service couldn't start, in one sentence for the operator. */
import { ConfigError } from '../config/config.ts';
import { errorSummary } from '../core/error-messages.ts';

/** Thrown if the service can't start or continue. The message is a sentence for the operator. */
export class StartError extends Error {}

/**
 * Waits for `work`. If it fails for a reason that the operator can fix, throws a StartError that begins with
 * `sentence`.
 */
export async function wrapStartError<Result>(sentence: string, work: Promise<Result>): Promise<Result> {
  try {
    return await work;
  } catch (cause) {
    // A ConfigError already names its files (for Temporal's TLS). A TypeError or RangeError is a bug, so we need the
    // stack.
    if (cause instanceof ConfigError || cause instanceof TypeError || cause instanceof RangeError) throw cause;
    throw new StartError(`${sentence}: ${errorSummary(cause)}`, { cause });
  }
}
