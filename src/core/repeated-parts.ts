/**
 * Remembers which parts of a body may also occur in other bodies, e.g. the history of a conversation. The journal then
 * writes their bytes only once. We forget the parts when the body is garbage-collected.
 */

export interface RepeatedPart {
  readonly start: number;
  readonly end: number;
  /** If two parts have the same length and fingerprint, their bytes are the same. */
  readonly fingerprint: string;
}

interface Repetition {
  readonly parts: readonly RepeatedPart[];
  readonly newBytes: number;
}

const known = new WeakMap<Buffer, Repetition>();

/** `newBytes` is the number of bytes that didn't occur in any earlier body. */
export function rememberRepetition(body: Buffer, repetition: Repetition): void {
  known.set(body, repetition);
}

/** Returns the parts that may also occur in other bodies. They can overlap and aren't sorted. */
export function repeatedPartsOf(body: Buffer): readonly RepeatedPart[] {
  return known.get(body)?.parts ?? none;
}

/**
 * Returns how many bytes of the body didn't occur in any earlier body. If we know nothing about the body, that's all of
 * them.
 */
export function countNewBytes(body: Buffer): number {
  return known.get(body)?.newBytes ?? body.length;
}

const none: readonly RepeatedPart[] = [];
