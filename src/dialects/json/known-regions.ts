/**
 * Remembers regions of a body that are identical to a region of an earlier body, so that we don't have to search them
 * again. A region is either a whole JSON value or several consecutive list elements. Regions are garbage-collected
 * together with the body.
 */
import type { BodySpans, SkipMember, Span } from '../../core/json/spans.ts';

/**
 * The result of searching a region for references to input outside the body, such as files (see `outside-input.ts`).
 */
export interface References {
  readonly hasTypes: boolean;
  readonly hasReference: boolean;
  readonly hasItemById: boolean;
  readonly hasDocument: boolean;
  readonly hasDocumentSource: boolean;
  /** True if the region may ask the vendor to keep the prompt in its cache. */
  readonly hasCacheMark: boolean;
}

export interface KnownRegion extends Span {
  /** True if the region is one JSON value. Otherwise it's a sequence of list elements. */
  readonly isValue: boolean;
  /** The number of image parts. */
  readonly images: number;
  readonly references: References;
  /** See `hidesAscii`. */
  readonly hidesAscii: boolean;
  /** The fingerprint of the region's bytes if it's a value (`memory/conversations/fingerprint.ts`). */
  readonly fingerprint?: string;
}

const known = new WeakMap<Buffer, readonly KnownRegion[]>();

/** Remembers the regions of a body, which have to be sorted and can't overlap. */
export function rememberRegions(body: Buffer, regions: readonly KnownRegion[]): void {
  if (regions.length > 0) known.set(body, regions);
}

const spansOf = new WeakMap<Buffer, BodySpans>();

/** Remembers where the members of a long body are, so that nobody has to scan its prompt again. */
export function rememberSpans(body: Buffer, spans: BodySpans): void {
  spansOf.set(body, spans);
}

/** Creates a `SkipMember` for the regions of this body that we remember. Undefined if there are none. */
export function skipRemembered(body: Buffer): SkipMember | undefined {
  const members = spansOf.get(body)?.members;
  return (
    members &&
    ((key, at) => {
      const value = members.get(key)?.value;
      return value?.start === at ? value.end : null;
    })
  );
}

export function knownRegionsOf(body: Buffer): readonly KnownRegion[] {
  return known.get(body) ?? [];
}

/** Returns the bytes that haven't been searched before, i.e. those outside the known regions. */
export function unknownBytes(body: Buffer): Buffer {
  const regions = knownRegionsOf(body);
  if (regions.length === 0) return body;
  const starts = [0, ...regions.map(({ end }) => end)];
  return Buffer.concat(starts.map((start, index) => body.subarray(start, regions[index]?.start ?? body.length)));
}
