/**
 * Remembers what the low-priority thread found in a large body (`routes/inspect-body.ts`), so that the event loop doesn't
 * have to search the body again. Facts are forgotten together with the body.
 */
import { largeBytes } from '../../core/low-priority-thread.ts';

export interface InputSize {
  /** The size of the body without the base64 data of media. */
  readonly textBytes: number;
  /** The number of images in the body and images referenced by URL. */
  readonly images: number;
  /** The base64 length of all audio. */
  readonly audioBytes: number;
  /** The base64 length of all PDFs and other media that is neither an image nor audio. */
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
  /** See `digestParameters`. This is null if the project has no response cache. */
  readonly digest: string | null;
  /** See `readRequestTexts`. This is null if the project has no rules for input, or if we can't check the texts. */
  readonly texts: readonly string[] | null;
}

const known = new WeakMap<Buffer, BodyFacts>();

export function rememberFacts(body: Buffer, facts: BodyFacts): void {
  known.set(body, facts);
}

/**
 * Returns undefined for small bodies, and for large ones that we didn't inspect, e.g. because we added memories to the
 * prompt.
 */
export function factsOf(body: Buffer): BodyFacts | undefined {
  return body.length < largeBytes ? undefined : known.get(body);
}
