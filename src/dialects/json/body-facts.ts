/**
 * Stores what the low-priority thread has found out about large bodies (`routes/inspect-body.ts`), so that the event
 * loop doesn't have to search them again. The facts are garbage-collected together with the body.
 */
import { largeBytes } from '../../core/low-priority-thread.ts';

export interface InputSize {
  /** The size of the body in bytes, not counting the base64 of media. */
  readonly textBytes: number;
  /** The number of images, including those that are only referenced by URL. */
  readonly images: number;
  /** The length of all audio in base64. */
  readonly audioBytes: number;
  /** The length of all documents in base64. These are PDFs, and other media that's neither an image nor audio. */
  readonly documentBytes: number;
}

export interface AddedTools {
  /** How often each type occurs. */
  readonly counts: ReadonlyMap<string, number>;
  /** The largest `max_uses`, or 0. */
  readonly maxUses: number;
  /** False if there was too much to count. In that case, assume that the conversation defines every tool. */
  readonly isComplete: boolean;
}

export interface BodyFacts {
  readonly size: InputSize;
  readonly leastTokens: number;
  readonly hidesAscii: boolean;
  readonly refersElsewhere: boolean;
  /** The number of media items in a request for embeddings or a rerank call (see `countMedia`). 0 on other routes. */
  readonly media: number;
  readonly mentionsCacheControl: boolean;
  /** The tools that the conversation may define. Null if it defines none (see `added-tools.ts`). */
  readonly addedTools: AddedTools | null;
  /**
   * A hash of everything in the body that can change the response (see `digestParameters`). Null if the project has no
   * response cache.
   */
  readonly digest: string | null;
  /**
   * The texts that content rules have to check (see `readRequestTexts`). Null if there are no rules for the input, or
   * if the texts can't be extracted.
   */
  readonly texts: readonly string[] | null;
}

const known = new WeakMap<Buffer, BodyFacts>();

export function rememberFacts(body: Buffer, facts: BodyFacts): void {
  known.set(body, facts);
}

/**
 * Returns undefined if the body wasn't inspected. We don't inspect small bodies, and if a large body is changed after
 * its inspection, e.g. because recall inserts a block, the result is a new body without facts.
 */
export function factsOf(body: Buffer): BodyFacts | undefined {
  return body.length < largeBytes ? undefined : known.get(body);
}
