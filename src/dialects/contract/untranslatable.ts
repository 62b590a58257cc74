/** What the other dialect has no words for: the candidate is skipped like one that refuses, instead of being asked something else. */

/** `message` says what cannot be expressed, in a fixed sentence without the caller's text. */
export class UntranslatableError extends Error {
  constructor(reason: string) {
    super(reason);
    this.name = 'Untranslatable';
  }
}

export function rejectUntranslatable(reason: string): never {
  throw new UntranslatableError(reason);
}
