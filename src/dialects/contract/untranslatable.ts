/** Thrown when the other dialect has no equivalent: the candidate is skipped, since a changed request would ask for something else. */
import type { ErrorDetails } from '../../core/errors.ts';

interface UntranslatableOptions {
  /** The request member that cannot be translated. */
  readonly param?: string;
  /** For SDKs that react to the error. */
  readonly details?: ErrorDetails | undefined;
}

/** `message` names what cannot be translated, in a fixed sentence without the caller's text. */
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
