/**
 * Remembers which regions of a body are identical to a region of an earlier body, so that we don't have to search them
 * again. A region is either a whole JSON value or a run of list elements. Regions are forgotten together with the body.
 */
import type { Span } from '../../core/json/spans.ts';

/** The results of searching for references to input outside the body. See `outside-input.ts`. */
export interface References {
  readonly hasTypes: boolean;
  readonly hasReference: boolean;
  readonly hasItemById: boolean;
  readonly hasDocument: boolean;
  readonly hasDocumentSource: boolean;
}

export interface KnownRegion extends Span {
  /** Whether this is a single JSON value rather than a run of list elements. */
  readonly isValue: boolean;
  /** The number of image parts. */
  readonly images: number;
  readonly references: References;
}

const known = new WeakMap<Buffer, readonly KnownRegion[]>();

/** The regions have to be in order and must not overlap. */
export function rememberRegions(body: Buffer, regions: readonly KnownRegion[]): void {
  if (regions.length > 0) known.set(body, regions);
}

export function knownRegionsOf(body: Buffer): readonly KnownRegion[] {
  return known.get(body) ?? [];
}

/** Returns the bytes of the body outside of its known regions. */
export function unknownBytes(body: Buffer): Buffer {
  const regions = knownRegionsOf(body);
  if (regions.length === 0) return body;
  const starts = [0, ...regions.map(({ end }) => end)];
  return Buffer.concat(starts.map((start, index) => body.subarray(start, regions[index]?.start ?? body.length)));
}
