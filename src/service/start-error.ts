/** What stops a start: one clear sentence for the person who starts. */
import { ConfigError } from '../config/config.ts';

/** Why a service cannot start or go on, in one sentence for the operator. */
export class StartError extends Error {}

/** What the person who starts can put right, as one sentence. */
export async function wrapStartError<Result>(sentence: string, work: Promise<Result>): Promise<Result> {
  try {
    return await work;
  } catch (cause) {
    // A file of Temporal's TLS is named by a ConfigError; a mistake of ours keeps its stack.
    if (cause instanceof ConfigError || cause instanceof TypeError || cause instanceof RangeError) throw cause;
    throw new StartError(`${sentence}: ${errorMessage(cause)}`, { cause });
  }
}

export function errorMessage(cause: unknown): string {
  // A host name with several addresses: each has a reason of its own, and together they have none.
  if (cause instanceof AggregateError && cause.message === '') return cause.errors.map(errorMessage).join('; ');
  // PGlite throws objects that are no errors, and the errors of Node's modules are of another realm under jest.
  const message = typeof cause === 'object' && cause !== null && 'message' in cause ? cause.message : null;
  if (typeof message === 'string') return message.split('\n', 1)[0] ?? '';
  return typeof cause === 'object' ? JSON.stringify(cause) : String(cause);
}
