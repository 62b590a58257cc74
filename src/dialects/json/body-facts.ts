/**
 * Keeps what the low-priority thread found in a large body (`routes/inspect-body.ts`), so that the event loop doesn't
 * have to search the body again. Entries are garbage-collected with their body.
 */
import { largeBytes } from '../../core/low-priority-thread.ts';

export interface InputSize {
  /** Bytes in the body, without the base64 of media. */
  readonly textBytes: number;
  /** The number of images, including those referenced by URL. */
  readonly images: number;
  /** The length of all audio in base64. */
  readonly audioBytes: number;
  /** The length of all PDFs in base64, plus any other media that is neither an image nor audio. */
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
  /**
   * A hash of everything in the body that can change the response (see `digestParameters`). Null if the project has no
   * response cache.
   */
  readonly digest: string | null;
  /** The result of `readRequestTexts`. Null if there are no input rules, or if the texts can't be checked. */
  readonly texts: readonly string[] | null;
}

const known = new WeakMap<Buffer, BodyFacts>();

export function rememberFacts(body: Buffer, facts: BodyFacts): void {
  known.set(body, facts);
}

/** Undefined for small bodies, and for large ones that nobody inspected, e.g. because recall has changed them since. */
export function factsOf(body: Buffer): BodyFacts | undefined {
  return body.length < largeBytes ? undefined : known.get(body);
}
