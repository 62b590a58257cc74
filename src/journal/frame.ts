/**
 * Frames: the binary format of records in a segment file. A request body is stored as raw bytes, and a record that a crash truncated is
 * detected by its length or CRC.
 *
 *   u32 length of the bytes after the CRC | u32 CRC-32 of these bytes | u32 length of the JSON | JSON | attachment
 */
import { crc32 } from 'node:zlib';

export interface Frame {
  readonly meta: Buffer;
  /** Empty when the record has none. */
  readonly attachment: Buffer;
  /** The encoded frame. */
  readonly raw: Buffer;
}

/** Why decoding stopped: the `end` of the bytes, a frame that is `truncated` (longer than the remaining bytes), or bytes that are not a frame (`damaged`). */
export type FrameEnd = 'end' | 'truncated' | 'damaged';

export interface DecodedFrames {
  readonly frames: readonly Frame[];
  /** Length of the complete frames. */
  readonly usedBytes: number;
  readonly end: FrameEnd;
  /** Length of the truncated frame, if its header is complete, else 0. */
  readonly neededBytes: number;
}

const prefixBytes = 8;
export const headerBytes = 12;

/** The buffers of a frame in order. The attachment is not copied. */
export function encodeFrame(meta: string, attachment: Buffer | null): Buffer[] {
  const metaBytes = Buffer.byteLength(meta);
  const head = Buffer.allocUnsafe(headerBytes + metaBytes);
  head.writeUInt32LE(headerBytes - prefixBytes + metaBytes + (attachment?.length ?? 0), 0);
  head.writeUInt32LE(metaBytes, prefixBytes);
  head.write(meta, headerBytes, 'utf8');
  const headCrc = crc32(head.subarray(prefixBytes));
  head.writeUInt32LE(attachment === null ? headCrc : crc32(attachment, headCrc), 4);
  return attachment === null || attachment.length === 0 ? [head] : [head, attachment];
}

/** The complete frames at the start of `bytes`, whose memory they share. */
export function decodeFrames(bytes: Buffer): DecodedFrames {
  const frames: Frame[] = [];
  let offset = 0;
  const endWith = (stop: FrameEnd, neededBytes = 0): DecodedFrames => ({ frames, usedBytes: offset, end: stop, neededBytes });
  while (offset < bytes.length) {
    if (bytes.length - offset < headerBytes) return endWith('truncated');
    const length = bytes.readUInt32LE(offset);
    const metaBytes = bytes.readUInt32LE(offset + prefixBytes);
    if (length < headerBytes - prefixBytes || metaBytes > length - (headerBytes - prefixBytes)) return endWith('damaged');
    const end = offset + prefixBytes + length;
    if (end > bytes.length) return endWith('truncated', prefixBytes + length);
    if (crc32(bytes.subarray(offset + prefixBytes, end)) !== bytes.readUInt32LE(offset + 4)) return endWith('damaged');
    const metaEnd = offset + headerBytes + metaBytes;
    frames.push({
      meta: bytes.subarray(offset + headerBytes, metaEnd),
      attachment: bytes.subarray(metaEnd, end),
      raw: bytes.subarray(offset, end),
    });
    offset = end;
  }
  return endWith('end');
}
