/**
 * Remembers which parts of a request body (e.g. the history of a conversation) other bodies may contain as well, so
 * that the journal only has to write them once. We forget this when the body is garbage-collected.
 */

export interface RepeatedPart {
  readonly start: number;
  readonly end: number;
  /** Parts with the same length and fingerprint have the same bytes. */
  readonly fingerprint: string;
}

interface Repetition {
  readonly parts: readonly RepeatedPart[];
  readonly newBytes: number;
}

const known = new WeakMap<Buffer, Repetition>();

/**
 * Remembers how much of a body has occurred before. `newBytes` is the number of bytes that weren't in any earlier body.
 */
export function rememberRepetition(body: Buffer, repetition: Repetition): void {
  known.set(body, repetition);
}

/** Returns the parts of a body that may also occur in other bodies. The parts can overlap and aren't sorted. */
export function repeatedPartsOf(body: Buffer): readonly RepeatedPart[] {
  return known.get(body)?.parts ?? none;
}

/**
 * Returns the number of bytes in a body that haven't occurred in any earlier body. If we haven't compared the body with
 * others, all of its bytes count as new.
 */
export function countNewBytes(body: Buffer): number {
  return known.get(body)?.newBytes ?? body.length;
}

const none: readonly RepeatedPart[] = [];
