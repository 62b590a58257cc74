/**
 * Thrown if the other dialect has no equivalent for something in the request. We then skip the candidate, because a
 * changed request would ask for something else.
 */
import type { ErrorDetails } from '../../core/errors.ts';

interface UntranslatableOptions {
  /** The request member that we can't translate. */
  readonly param?: string;
  /** Machine-readable details, because some SDKs react to them. */
  readonly details?: ErrorDetails | undefined;
}

/** The message names what we can't translate. It's always a fixed sentence that doesn't quote the caller's text. */
export class UntranslatableError extends Error {
  readonly param: string | null;
  readonly details: ErrorDetails | undefined;

  constructor(reason: string, { param, details }: UntranslatableOptions = {}) {
    super(reason);
    this.name = 'UntranslatableError';
    this.param = param ?? null;
    this.details = details;
  }
}

export function rejectUntranslatable(reason: string, options?: UntranslatableOptions): never {
  throw new UntranslatableError(reason, options);
}
