/**
 * Remembers which parts of a request body (e.g. the history of a conversation) may occur in other bodies as well, so
 * that the journal only writes them once. This information goes away when the body is garbage-collected.
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

/** Returns parts that may also occur in other bodies. They can overlap and aren't sorted. */
export function repeatedPartsOf(body: Buffer): readonly RepeatedPart[] {
  return known.get(body)?.parts ?? none;
}

/** Returns how many bytes no earlier body contains. If we haven't compared the body, that's all of them. */
export function countNewBytes(body: Buffer): number {
  return known.get(body)?.newBytes ?? body.length;
}

const none: readonly RepeatedPart[] = [];
