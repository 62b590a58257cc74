/** Reads a segment in windows of bounded size, so that a backlog of any length needs the memory of one window (or one record). */
import { open } from 'node:fs/promises';
import { decodeFrames, type Frame, type FrameEnd, headerBytes } from './frame.ts';

export interface SegmentWindow {
  readonly frames: readonly Frame[];
  /** Offset of the next window. */
  readonly nextOffset: number;
  /** `more`: continue at `nextOffset`. */
  readonly end: FrameEnd | 'more';
}

const windowBytes = 4 * 1024 * 1024;

/** The complete frames from `offset` on, at least one if there is one. Nothing is read beyond `endOffset`. */
export async function readWindow(file: string, offset: number, endOffset: number, maxBytes = windowBytes): Promise<SegmentWindow> {
  const handle = await open(file, 'r');
  try {
    const read = async (bytes: number): Promise<Buffer> => {
      const buffer = Buffer.allocUnsafeSlow(Math.min(bytes, endOffset - offset));
      let at = 0;
      while (at < buffer.length) {
        const { bytesRead } = await handle.read(buffer, at, buffer.length - at, offset + at);
        if (bytesRead === 0) break; // The file is shorter than expected: the last frame decodes as truncated.
        at += bytesRead;
      }
      return buffer.subarray(0, at);
    };
    let decoded = decodeFrames(await read(Math.max(maxBytes, headerBytes)));
    const isLargerThanWindow = decoded.frames.length === 0 && decoded.end === 'truncated' && decoded.neededBytes > maxBytes;
    if (isLargerThanWindow && decoded.neededBytes <= endOffset - offset) decoded = decodeFrames(await read(decoded.neededBytes));
    const nextOffset = offset + decoded.usedBytes;
    const isCutByWindow = decoded.end !== 'damaged' && decoded.frames.length > 0 && nextOffset < endOffset;
    return { frames: decoded.frames, nextOffset, end: isCutByWindow ? 'more' : decoded.end };
  } finally {
    await handle.close();
  }
}
