/**
 * Remembers which parts of a body other bodies may repeat, e.g. the history of a conversation. The journal uses this to
 * write their bytes only once. The parts are garbage-collected together with the body.
 */

export interface RepeatedPart {
  readonly start: number;
  readonly end: number;
  /** Parts of the same length with the same fingerprint consist of the same bytes. */
  readonly fingerprint: string;
}

interface Repetition {
  readonly parts: readonly RepeatedPart[];
  readonly newBytes: number;
}

const known = new WeakMap<Buffer, Repetition>();

/** `newBytes` is the number of bytes that no earlier body contained. */
export function rememberRepetition(body: Buffer, repetition: Repetition): void {
  known.set(body, repetition);
}

/** Returns the parts that other bodies may repeat. They can overlap, and they're in no particular order. */
export function repeatedPartsOf(body: Buffer): readonly RepeatedPart[] {
  return known.get(body)?.parts ?? none;
}

/** Returns the number of bytes that no earlier body contained, as far as we know. */
export function countNewBytes(body: Buffer): number {
  return known.get(body)?.newBytes ?? body.length;
}

const none: readonly RepeatedPart[] = [];
