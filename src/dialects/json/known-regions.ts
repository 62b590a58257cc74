/**
 * Remembers which regions of a body we have already searched. Each call of a conversation repeats the earlier messages,
 * so we would otherwise search the same JSON again and again. A region is either a whole JSON value or several
 * consecutive list elements, and is garbage-collected together with its body.
 */
import type { BodySpans, SkipMember, Span } from '../../core/json/spans.ts';

/** Tells whether a part of the body refers to input outside of the body, e.g. to files (see `outside-input.ts`). */
export interface References {
  readonly hasTypes: boolean;
  readonly hasReference: boolean;
  readonly hasItemById: boolean;
  readonly hasDocument: boolean;
  readonly hasDocumentSource: boolean;
  /** True if the region may contain `cache_control`, which asks the vendor to keep the prompt in its cache. */
  readonly hasCacheMark: boolean;
  /** True if the region may define tools (see `added-tools.ts`). */
  readonly hasAddedTools: boolean;
}

export interface KnownRegion extends Span {
  /** True if the region is one JSON value, false if it's a sequence of list elements. */
  readonly isValue: boolean;
  readonly images: number;
  readonly references: References;
  readonly hidesAscii: boolean;
  /**
   * The fingerprint of the bytes (see `memory/conversations/fingerprint.ts`). Only set if the region is a single JSON
   * value.
   */
  readonly fingerprint?: string;
}

const known = new WeakMap<Buffer, readonly KnownRegion[]>();

/** Remembers the regions of a body. They have to be sorted and mustn't overlap. */
export function rememberRegions(body: Buffer, regions: readonly KnownRegion[]): void {
  if (regions.length > 0) known.set(body, regions);
}

const spansOf = new WeakMap<Buffer, BodySpans>();

/** Remembers the positions of a long body's members, so that later scans can skip its prompt. */
export function rememberSpans(body: Buffer, spans: BodySpans): void {
  spansOf.set(body, spans);
}

/**
 * Returns a function that makes a scan skip the fields whose positions we remember for this body. Returns undefined if
 * we don't remember any.
 */
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

/** Returns the parts of a body that aren't in a known region. We still have to search these. */
export function unknownPieces(body: Buffer): readonly Buffer[] {
  const regions = knownRegionsOf(body);
  if (regions.length === 0) return [body];
  const pieces: Buffer[] = [];
  let at = 0;
  for (const { start, end } of regions) {
    if (start > at) pieces.push(body.subarray(at, start));
    at = end;
  }
  if (at < body.length) pieces.push(body.subarray(at));
  return pieces;
}
