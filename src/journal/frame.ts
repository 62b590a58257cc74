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
export type FrameStop = 'end' | 'cut' | 'damaged';

export interface FrameRun {
  readonly frames: readonly Frame[];
  /** Bytes of whole frames from the start. */
  readonly usedBytes: number;
  readonly stop: FrameStop;
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
export function decodeFrames(bytes: Buffer): FrameRun {
  const frames: Frame[] = [];
  let at = 0;
  const stopAt = (stop: FrameStop, neededBytes = 0): FrameRun => ({ frames, usedBytes: at, stop, neededBytes });
  while (at < bytes.length) {
    if (bytes.length - at < headerBytes) return stopAt('cut');
    const length = bytes.readUInt32LE(at);
    const metaBytes = bytes.readUInt32LE(at + prefixBytes);
    if (length < headerBytes - prefixBytes || metaBytes > length - (headerBytes - prefixBytes)) return stopAt('damaged');
    const end = at + prefixBytes + length;
    if (end > bytes.length) return stopAt('cut', prefixBytes + length);
    if (crc32(bytes.subarray(at + prefixBytes, end)) !== bytes.readUInt32LE(at + 4)) return stopAt('damaged');
    const metaEnd = at + headerBytes + metaBytes;
    frames.push({
      meta: bytes.subarray(at + headerBytes, metaEnd),
      attachment: bytes.subarray(metaEnd, end),
      raw: bytes.subarray(at, end),
    });
    at = end;
  }
  return stopAt('end');
}
