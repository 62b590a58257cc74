/**
 * Regions of a body that are equal to a region of an earlier body, so that they need not be searched again. They are
 * whole JSON values or a run of elements of a list, and are forgotten together with the body.
 */
import type { Span } from '../../core/json/spans.ts';

/** What a search for references to input outside the body has found. See `outside-input.ts`. */
export interface References {
  readonly hasTypes: boolean;
  readonly hasReference: boolean;
  readonly hasItemById: boolean;
  readonly hasDocument: boolean;
  readonly hasDocumentSource: boolean;
}

export interface KnownRegion extends Span {
  /** A single JSON value. Otherwise a run of elements. */
  readonly isValue: boolean;
  /** Number of image parts. */
  readonly images: number;
  readonly references: References;
}

const known = new WeakMap<Buffer, readonly KnownRegion[]>();

/** `regions` are in order and don't overlap. */
export function rememberRegions(body: Buffer, regions: readonly KnownRegion[]): void {
  if (regions.length > 0) known.set(body, regions);
}

export function knownRegionsOf(body: Buffer): readonly KnownRegion[] {
  return known.get(body) ?? [];
}

/** The bytes of the body outside of its known regions. */
export function unknownBytes(body: Buffer): Buffer {
  const regions = knownRegionsOf(body);
  if (regions.length === 0) return body;
  const starts = [0, ...regions.map(({ end }) => end)];
  return Buffer.concat(starts.map((start, index) => body.subarray(start, regions[index]?.start ?? body.length)));
}
