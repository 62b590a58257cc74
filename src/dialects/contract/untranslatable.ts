/** Thrown when the other dialect has no equivalent: the candidate is skipped, since a changed request would ask for something else. */

/** `message` names what cannot be translated, in a fixed sentence without the caller's text. */
export class UntranslatableError extends Error {
  constructor(reason: string) {
    super(reason);
    this.name = 'UntranslatableError';
  }
}

export function rejectUntranslatable(reason: string): never {
  throw new UntranslatableError(reason);
}
