/** Errors that prevent a start, each with one sentence for the operator. */
import { ConfigError } from '../config/config.ts';
import { errorSummary } from '../core/error-messages.ts';

/** Tells the operator in one sentence why a service can't start or continue. */
export class StartError extends Error {}

/**
 * Awaits `work`. If it fails for a reason that the operator can fix, this throws a StartError that begins with
 * `sentence`.
 */
export async function wrapStartError<Result>(sentence: string, work: Promise<Result>): Promise<Result> {
  try {
    return await work;
  } catch (cause) {
    // A ConfigError already names its files (Temporal's TLS). A TypeError or RangeError is a bug and needs its stack.
    if (cause instanceof ConfigError || cause instanceof TypeError || cause instanceof RangeError) throw cause;
    throw new StartError(`${sentence}: ${errorSummary(cause)}`, { cause });
  }
}
