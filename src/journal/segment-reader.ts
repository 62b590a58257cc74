/**
 * Reads a segment in windows of limited size. No matter how long the backlog is, we only need memory for one window (or
 * one record).
 */
import type { JournalFileSystem } from './file-system.ts';
import { decodeInTurns, type Frame, type FrameEnd, headerBytes } from './frame.ts';
import { expandFrame, mayShareBytes } from './shared-bytes.ts';

export interface SegmentWindow {
  readonly frames: readonly Frame[];
  readonly nextOffset: number;
  /** `more` means that you can continue reading at `nextOffset`, because there are more frames. */
  readonly end: FrameEnd | 'more';
}

const windowBytes = 4 * 1024 * 1024;

/**
 * Reads complete frames between `offset` and `endOffset`. If a frame is larger than the window, it's returned on its
 * own. If the file ends before `endOffset`, the last frame counts as truncated.
 */
export async function readWindow(
  files: JournalFileSystem,
  file: string,
  offset: number,
  endOffset: number,
  maxBytes = windowBytes,
): Promise<SegmentWindow> {
  const read = (length: number): Promise<Buffer> => files.read(file, offset, Math.min(length, endOffset - offset));
  let bytes = await read(Math.max(maxBytes, headerBytes));
  let decoded = await decodeInTurns(bytes);
  const isLargerThanWindow = decoded.frames.length === 0 && decoded.end === 'truncated' && decoded.neededBytes > maxBytes;
  if (isLargerThanWindow && decoded.neededBytes <= endOffset - offset) {
    bytes = await read(decoded.neededBytes);
    decoded = await decodeInTurns(bytes);
  }
  let preceding: Buffer | null = null;
  /**
   * Reads bytes of an earlier frame. If it's in front of this window, we read everything up to the window, but only
   * once.
   */
  const readShared = async (at: number, length: number): Promise<Buffer> => {
    if (at >= offset) return bytes.subarray(at - offset, at - offset + length);
    preceding ??= await files.read(file, 0, offset);
    return preceding.subarray(at, at + length);
  };
  const frames: Frame[] = [];
  let expandedBytes = 0;
  let nextOffset = offset;
  for (const frame of decoded.frames) {
    const expanded = mayShareBytes(frame) ? await expandFrame(frame, readShared) : frame;
    expandedBytes += expanded.raw.length;
    // Expanded frames can be much longer than the ones in the file. If they no longer fit into the window, return what
    // we have so far, and leave the others for the next call.
    if (frames.length > 0 && expandedBytes > Math.max(maxBytes, headerBytes)) return { frames, nextOffset, end: 'more' };
    frames.push(expanded);
    nextOffset += frame.raw.length;
  }
  const isCutByWindow = decoded.end !== 'damaged' && frames.length > 0 && nextOffset < endOffset;
  return { frames, nextOffset, end: isCutByWindow ? 'more' : decoded.end };
}
