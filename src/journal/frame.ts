/**
 * How a record lies in a segment file: lengths and a CRC in front of JSON and raw bytes, so that a request body is written as it came,
 * and a record that was cut by a crash is recognised and not mistaken for another.
 *
 *   u32 length of what follows the CRC | u32 CRC-32 of what follows | u32 length of the JSON | JSON | attachment
 */
import { crc32 } from 'node:zlib';

export interface Frame {
  readonly meta: Buffer;
  /** Empty when the record has none. */
  readonly attachment: Buffer;
  /** The frame as it lies in the file. */
  readonly raw: Buffer;
}

/**
 * Why reading stopped: `end` of the bytes, a frame that is `cut` (it says it is longer than the bytes there are), or bytes that are no
 * frame at all (`damaged`).
 */
export type FrameEnd = 'end' | 'cut' | 'damaged';

export interface DecodedFrames {
  readonly frames: readonly Frame[];
  /** Bytes of whole frames from the start. */
  readonly usedBytes: number;
  readonly end: FrameEnd;
  /** Length of the frame that is cut, when its header is there. */
  readonly neededBytes: number;
}

const prefixBytes = 8;
export const headerBytes = 12;

/** The buffers of a frame, in order; the attachment is not copied. */
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

/** The whole frames at the start of `bytes`. They share its memory. */
export function decodeFrames(bytes: Buffer): DecodedFrames {
  const frames: Frame[] = [];
  let offset = 0;
  const endWith = (stop: FrameEnd, neededBytes = 0): DecodedFrames => ({ frames, usedBytes: offset, end: stop, neededBytes });
  while (offset < bytes.length) {
    if (bytes.length - offset < headerBytes) return endWith('cut');
    const length = bytes.readUInt32LE(offset);
    const metaBytes = bytes.readUInt32LE(offset + prefixBytes);
    if (length < headerBytes - prefixBytes || metaBytes > length - (headerBytes - prefixBytes)) return endWith('damaged');
    const end = offset + prefixBytes + length;
    if (end > bytes.length) return endWith('cut', prefixBytes + length);
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
