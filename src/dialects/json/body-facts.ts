/**
 * The findings of the low-priority thread that searches large bodies (`routes/inspect-body.ts`). The event loop uses
 * them instead of searching the same body again. They're garbage-collected together with the body.
 */
import { largeBytes } from '../../core/low-priority-thread.ts';

export interface InputSize {
  /** The size of the body in bytes, without the base64 of media. */
  readonly textBytes: number;
  /** The number of images, including those that are only referenced by URL. */
  readonly images: number;
  /** The length of all audio in base64. */
  readonly audioBytes: number;
  /** The length of all PDFs in base64. Media that's neither an image nor audio counts as a document too. */
  readonly documentBytes: number;
}

export interface BodyFacts {
  readonly size: InputSize;
  readonly leastTokens: number;
  readonly hidesAscii: boolean;
  readonly refersElsewhere: boolean;
  readonly mentionsCacheControl: boolean;
  /**
   * A hash of everything in the body that can change the response (see `digestParameters`). Null if the project has no
   * response cache.
   */
  readonly digest: string | null;
  /**
   * The result of `readRequestTexts`. Null if there are no content rules for the input, or if the texts can't be
   * extracted.
   */
  readonly texts: readonly string[] | null;
}

const known = new WeakMap<Buffer, BodyFacts>();

export function rememberFacts(body: Buffer, facts: BodyFacts): void {
  known.set(body, facts);
}

/**
 * Returns undefined if the body was never inspected. That's the case for small bodies, and also for large ones that
 * have changed since, e.g. because recall inserted a block.
 */
export function factsOf(body: Buffer): BodyFacts | undefined {
  return body.length < largeBytes ? undefined : known.get(body);
}
