/**
 * Thrown if a request contains something that the other dialect can't express. We don't send the request without that
 * part, because it would mean something else. The gateway skips the candidate instead.
 */
import type { ErrorDetails } from '../../core/errors.ts';

interface UntranslatableOptions {
  readonly param?: string;
  /** Machine-readable details for the error response. Some SDKs act on them. */
  readonly details?: ErrorDetails | undefined;
}

/** The message names what can't be translated. It's always a fixed sentence and never quotes the caller's text. */
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
