/**
 * If several request bodies have bytes in common, we write these bytes only once per segment. Agents resend their whole
 * history with each call, so nearly all of a body is usually in the segment already. The record then refers to these
 * bytes by their position in the file, and its attachment only contains what's new.
 *
 * A record never refers to bytes outside of its own segment. Segments are deleted as a whole, so everything that a
 * record needs exists for as long as the record does.
 */
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import { parseJson } from '../core/json/parse.ts';
import { type RepeatedPart, repeatedPartsOf } from '../core/repeated-parts.ts';
import { encodeFrame, type Frame, headerBytes } from './frame.ts';

/**
 * A piece of a request body. A number means that the next bytes of the record's attachment belong here, and says how
 * many. A pair is the offset and length of a piece that's already in the segment.
 */
type BodyPiece = number | readonly [offset: number, length: number];

export interface SharedBody {
  readonly pieces: readonly BodyPiece[];
  /** The bytes of the body that aren't in the segment yet. */
  readonly attachment: Buffer;
  /** Parts of the body that the segment doesn't contain yet, so a later body may share them with this one. */
  readonly missing: readonly RepeatedPart[];
}

/** Ranges of bytes in a segment, as alternating offsets and lengths. */
type Ranges = readonly number[];

/** The maximum number of parts that we remember per segment. Each of them needs up to a kilobyte. */
const maxParts = 2_000;
/** We write a body in full if it would have more pieces than this. */
const maxPieces = 64;
/** Sharing fewer bytes than this isn't worth the effort. */
const minSharedBytes = 8_192;

export type WrittenParts = ReturnType<typeof createWrittenParts>;

/** Remembers where the parts of request bodies are in a segment. */
export function createWrittenParts() {
  const written = new LRUCache<string, Ranges>({ max: maxParts });

  return {
    /**
     * Splits a body into new bytes and those that are already in the segment. Returns null if the body should be
     * written in full.
     */
    share(body: Buffer): SharedBody | null {
      const parts = repeatedPartsOf(body);
      if (parts.length === 0) return null;
      const missing: RepeatedPart[] = [];
      const pieces: BodyPiece[] = [];
      const added: Buffer[] = [];
      let at = 0;
      let sharedBytes = 0;
      const addUntil = (end: number): void => {
        if (end === at) return;
        pieces.push(end - at);
        added.push(body.subarray(at, end));
      };
      for (const part of parts.toSorted((one, other) => one.start - other.start || other.end - one.end)) {
        const { start, end } = part;
        // Skip parts that lie within a longer part that we've already found.
        if (start < at) continue;
        const ranges = written.get(keyOf(part));
        if (ranges === undefined) {
          missing.push(part);
          continue;
        }
        addUntil(start);
        for (let index = 0; index < ranges.length; index += 2) pieces.push([ranges[index] ?? 0, ranges[index + 1] ?? 0]);
        sharedBytes += end - start;
        at = end;
      }
      addUntil(body.length);
      if (sharedBytes < minSharedBytes || pieces.length > maxPieces) return null;
      return { pieces, attachment: added.length === 1 && added[0] ? added[0] : Buffer.concat(added), missing };
    },
    /**
     * Call this when a body has been written, so that later bodies can refer to its parts. `offset` is the position in
     * the segment where its attachment begins.
     */
    add(body: Buffer, shared: SharedBody | null, offset: number): void {
      const ranges = shared ? toRanges(shared.pieces, offset) : [offset, body.length];
      // If the body was written in full, each of its parts is in one piece, and a later body needs only one range for
      // it. That's why we remember these copies instead of earlier ones.
      const parts = shared ? shared.missing : repeatedPartsOf(body);
      for (const part of parts) written.set(keyOf(part), sliceRanges(ranges, part.start, part.end));
    },
  };
}

function keyOf({ start, end, fingerprint }: RepeatedPart): string {
  return `${end - start} ${fingerprint}`;
}

function toRanges(pieces: readonly BodyPiece[], offset: number): Ranges {
  let at = offset;
  return pieces.flatMap((piece) => {
    if (typeof piece !== 'number') return piece;
    at += piece;
    return [at - piece, piece];
  });
}

/**
 * Returns the ranges of the segment that contain bytes `start` to `end` of a body, given the `ranges` of the whole
 * body.
 */
function sliceRanges(ranges: Ranges, start: number, end: number): Ranges {
  const slice: number[] = [];
  let at = 0;
  for (let index = 0; index < ranges.length; index += 2) {
    const offset = ranges[index] ?? 0;
    const length = ranges[index + 1] ?? 0;
    const from = Math.max(start, at);
    const to = Math.min(end, at + length);
    if (from < to) slice.push(offset + from - at, to - from);
    at += length;
  }
  return slice;
}

const offsetOrLength = z.int().nonnegative();
const sharedSchema = z.looseObject({
  shared: z.object({ content: z.unknown(), pieces: z.array(z.union([offsetOrLength, z.tuple([offsetOrLength, offsetOrLength])])) }),
});

/**
 * Each record with a shared body contains this in its JSON. It can't occur within a string, because the quotes would be
 * escaped there.
 */
const sharedMark = Buffer.from('"shared":{');

/** Returns true if the frame might have a shared body. */
export function mayShareBytes({ meta }: Frame): boolean {
  return meta.includes(sharedMark);
}

/**
 * If the frame only refers to its body, returns a frame that contains the whole body. `read` reads from the segment
 * and returns fewer bytes than requested if the segment ends before that.
 */
export async function expandFrame(frame: Frame, read: (offset: number, length: number) => Promise<Buffer>): Promise<Frame> {
  const parsed = sharedSchema.safeParse(parseJson(frame.meta.toString('utf8')));
  if (!parsed.success) return frame;
  const { shared, ...record } = parsed.data;
  const parts: Buffer[] = [];
  let at = 0;
  for (const piece of shared.pieces) {
    if (typeof piece !== 'number') {
      const [offset, length] = piece;
      const bytes = await read(offset, length);
      if (bytes.length < length) return frame;
      parts.push(bytes);
    } else {
      parts.push(frame.attachment.subarray(at, at + piece));
      at += piece;
    }
  }
  if (at !== frame.attachment.length) return frame;
  const attachment = Buffer.concat(parts);
  const raw = Buffer.concat(encodeFrame(JSON.stringify({ ...record, content: shared.content }), attachment));
  const metaEnd = raw.length - attachment.length;
  return { meta: raw.subarray(headerBytes, metaEnd), attachment: raw.subarray(metaEnd), raw };
}
