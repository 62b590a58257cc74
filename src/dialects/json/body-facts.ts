/**
 * The low-priority thread searches large bodies (`routes/inspect-body.ts`). We keep its findings here so that the event
 * loop doesn't have to search the same body again. They're garbage-collected together with the body.
 */
import { largeBytes } from '../../core/low-priority-thread.ts';

export interface InputSize {
  /** The size of the body in bytes, leaving out the base64 of media. */
  readonly textBytes: number;
  /** Includes images that are only referenced by URL. */
  readonly images: number;
  /** The length of all audio in base64. */
  readonly audioBytes: number;
  /** The length of all PDFs in base64. Any media that's neither an image nor audio counts as a document too. */
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
  /**
   * The result of `readRequestTexts`. Null if there are no content rules for the input, or if we can't extract the
   * texts.
   */
  readonly texts: readonly string[] | null;
}

const known = new WeakMap<Buffer, BodyFacts>();

export function rememberFacts(body: Buffer, facts: BodyFacts): void {
  known.set(body, facts);
}

/**
 * Small bodies are never inspected. Large ones may not be either, e.g. if recall has changed the body since. Returns
 * undefined for those.
 */
export function factsOf(body: Buffer): BodyFacts | undefined {
  return body.length < largeBytes ? undefined : known.get(body);
}
