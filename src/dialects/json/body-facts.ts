/**
 * Remembers what the low-priority thread found in a large body (`routes/inspect-body.ts`), so that the event loop doesn't
 * have to search the body again. Facts are forgotten together with the body.
 */
import { largeBytes } from '../../core/low-priority-thread.ts';

export interface InputSize {
  /** Bytes without the base64 data of media. */
  readonly textBytes: number;
  /** In the body, or referenced by URL. */
  readonly images: number;
  /** Of base64. */
  readonly audioBytes: number;
  /** Of base64: PDFs, and whatever is no image. */
  readonly documentBytes: number;
}

export interface BodyFacts {
  readonly size: InputSize;
  /** See `countLeastTokens`. */
  readonly leastTokens: number;
  /** See `hidesAscii`. */
  readonly hidesAscii: boolean;
  /** See `refersElsewhere`. */
  readonly refersElsewhere: boolean;
  /** See `mentionsCacheControl`. */
  readonly mentionsCacheControl: boolean;
  /** See `digestParameters`. Null if the project has no response cache. */
  readonly digest: string | null;
  /** See `readRequestTexts`. Null if the project has no rules for input, or if the texts can't be checked. */
  readonly texts: readonly string[] | null;
}

const known = new WeakMap<Buffer, BodyFacts>();

export function rememberFacts(body: Buffer, facts: BodyFacts): void {
  known.set(body, facts);
}

/** Undefined for small bodies and for those that were not inspected, e.g. because memories were added to the prompt. */
export function factsOf(body: Buffer): BodyFacts | undefined {
  return body.length < largeBytes ? undefined : known.get(body);
}
