/**
 * The binary format of records in a segment file. It stores request bodies as raw bytes. If a crash truncates a record,
 * we can tell from its length or CRC.
 *
 * u32 length of the bytes after the CRC | u32 CRC-32 of these bytes | u32 length of the JSON | JSON | attachment
 */
import { crc32 } from 'node:zlib';
import { largeBytes } from '../core/low-priority-thread.ts';
import { crc32InTurns } from '../core/turns.ts';

export interface Frame {
  readonly meta: Buffer;
  /** The raw bytes of the request body. If the record doesn't have one, the buffer is empty. */
  readonly attachment: Buffer;
  /** The complete frame as it's stored in the file, including its header. */
  readonly raw: Buffer;
}

/**
 * Tells why decoding has stopped: there are no more bytes (`end`), the next frame continues after the last byte
 * (`truncated`), or it isn't a valid frame (`damaged`).
 */
export type FrameEnd = 'end' | 'truncated' | 'damaged';

export interface DecodedFrames {
  readonly frames: readonly Frame[];
  readonly usedBytes: number;
  readonly end: FrameEnd;
  /**
   * The size of the truncated frame according to its header, or 0 if the header is incomplete too. Also 0 if no frame
   * is truncated.
   */
  readonly neededBytes: number;
}

/** Encodes consecutive frames into a reusable buffer. */
export interface FrameBuffer {
  readonly length: number;
  /**
   * Encodes a frame and appends it to the buffer. The pieces of `meta` are concatenated and have to form JSON. Returns
   * the offset of the attachment in the buffer.
   */
  add(meta: readonly string[], attachment: Buffer | null): number;
  /**
   * Adds the checksums of large frames, for which `add` doesn't compute them, because that would block the event loop
   * for too long. Call this before you write the frames.
   */
  addChecksums(): Promise<void>;
  /** Returns the encoded frames. Don't use them after the next `clear`. */
  buffers(): readonly Buffer[];
  clear(): void;
}

const prefixBytes = 8;
const crcOffset = 4;
export const headerBytes = 12;
/** Synchronous writes are never larger than this (`sync-writes.ts`). */
const reusedBytes = 256 * 1_024;
const maxUtf8Bytes = 3;

/** Returns the frame as a list of buffers. The attachment isn't copied. */
export function encodeFrame(meta: string, attachment: Buffer | null): Buffer[] {
  const head = encodeHead(meta, attachment);
  const headCrc = crc32(head.subarray(prefixBytes));
  head.writeUInt32LE(attachment === null ? headCrc : crc32(attachment, headCrc), crcOffset);
  return attachment === null || attachment.length === 0 ? [head] : [head, attachment];
}

/**
 * Encodes the header and the metadata, which come before the attachment. The caller still has to fill in the checksum.
 */
function encodeHead(meta: string, attachment: Buffer | null): Buffer {
  const metaBytes = Buffer.byteLength(meta);
  const head = Buffer.allocUnsafe(headerBytes + metaBytes);
  head.writeUInt32LE(headerBytes - prefixBytes + metaBytes + (attachment?.length ?? 0), 0);
  head.writeUInt32LE(metaBytes, prefixBytes);
  head.write(meta, headerBytes, 'utf8');
  return head;
}

/**
 * Creates a frame buffer. Frames that don't fit into the reusable memory get their own buffers, and their attachments
 * aren't copied.
 */
export function createFrameBuffer(): FrameBuffer {
  const memory = Buffer.allocUnsafeSlow(reusedBytes);
  let buffers: Buffer[] = [];
  let unsummed: { readonly head: Buffer; readonly attachment: Buffer }[] = [];
  let length = 0;
  let used = 0;
  /** The offset in `memory` where the frames begin that we haven't added to `buffers` yet. */
  let start = 0;

  const endBuffer = (): void => {
    if (used > start) buffers.push(memory.subarray(start, used));
    start = used;
  };

  const encodeSeparately = (meta: string, attachment: Buffer | null): Buffer[] => {
    if (attachment === null || attachment.length < largeBytes) return encodeFrame(meta, attachment);
    const head = encodeHead(meta, attachment);
    unsummed.push({ head, attachment });
    return [head, attachment];
  };

  return {
    get length() {
      return length;
    },
    add(meta, attachment) {
      const frame = used;
      const attachedBytes = attachment === null ? 0 : attachment.length;
      let metaLength = 0;
      for (const part of meta) metaLength += part.length;
      if (frame + headerBytes + maxUtf8Bytes * metaLength + attachedBytes > reusedBytes) {
        endBuffer();
        for (const buffer of encodeSeparately(meta.join(''), attachment)) {
          buffers.push(buffer);
          length += buffer.length;
        }
        return length - attachedBytes;
      }
      let metaEnd = frame + headerBytes;
      for (const part of meta) metaEnd += memory.write(part, metaEnd, 'utf8');
      if (attachment !== null) memory.set(attachment, metaEnd);
      used = metaEnd + attachedBytes;
      memory.writeUInt32LE(used - frame - prefixBytes, frame);
      memory.writeUInt32LE(metaEnd - frame - headerBytes, frame + prefixBytes);
      memory.writeUInt32LE(crc32(memory.subarray(frame + prefixBytes, used)), frame + crcOffset);
      length += used - frame;
      return length - attachedBytes;
    },
    async addChecksums() {
      for (const { head, attachment } of unsummed)
        head.writeUInt32LE(await crc32InTurns(attachment, crc32(head.subarray(prefixBytes))), crcOffset);
      unsummed = [];
    },
    buffers() {
      endBuffer();
      return buffers;
    },
    clear() {
      buffers = [];
      unsummed = [];
      length = 0;
      used = 0;
      start = 0;
    },
  };
}

/**
 * Like `decodeFrames`, but lets the event loop run while it verifies large frames, because computing a checksum can
 * take tens of milliseconds.
 */
export async function decodeInTurns(bytes: Buffer): Promise<DecodedFrames> {
  const decoded = decodeFrames(bytes, largeBytes);
  let usedBytes = 0;
  for (const [index, { raw }] of decoded.frames.entries()) {
    if (raw.length >= largeBytes && (await crc32InTurns(raw.subarray(prefixBytes))) !== raw.readUInt32LE(crcOffset))
      return { frames: decoded.frames.slice(0, index), usedBytes, end: 'damaged', neededBytes: 0 };
    usedBytes += raw.length;
  }
  return decoded;
}

/**
 * Decodes the complete frames at the start of `bytes`, and returns views of them. The checksums of frames that have at
 * least `uncheckedBytes` aren't verified.
 */
export function decodeFrames(bytes: Buffer, uncheckedBytes = Number.POSITIVE_INFINITY): DecodedFrames {
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
    const isChecked = end - offset < uncheckedBytes;
    if (isChecked && crc32(bytes.subarray(offset + prefixBytes, end)) !== bytes.readUInt32LE(offset + crcOffset)) return endWith('damaged');
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
