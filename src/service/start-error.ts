/** Why a service couldn't start, in one sentence for the operator. */
import { ConfigError } from '../config/config.ts';
import { errorSummary } from '../core/error-messages.ts';

/** Thrown if the service can't start or continue. The message tells the operator why. */
export class StartError extends Error {}

/**
 * Waits for `work`. If it fails because of something that the operator can fix, throws a StartError whose message
 * begins with `sentence`.
 */
export async function wrapStartError<Result>(sentence: string, work: Promise<Result>): Promise<Result> {
  try {
    return await work;
  } catch (cause) {
    // Some errors are thrown unchanged. A ConfigError already names the files (of Temporal's TLS), and a TypeError or
    // RangeError is a bug whose stack we need.
    if (cause instanceof ConfigError || cause instanceof TypeError || cause instanceof RangeError) throw cause;
    throw new StartError(`${sentence}: ${errorSummary(cause)}`, { cause });
  }
}
