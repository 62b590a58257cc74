/**
 * Thrown if the other dialect has no equivalent for a part of a request. Without that part the request would mean
 * something else, so we don't send it, and the gateway skips the candidate.
 */
import type { ErrorDetails } from '../../core/errors.ts';

interface UntranslatableOptions {
  readonly param?: string;
  /** Machine-readable details for the error response. Some SDKs act on them. */
  readonly details?: ErrorDetails | undefined;
}

/** The message says what we can't translate. It's always a fixed sentence and never quotes the caller's text. */
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
