/**
 * Reads a segment in windows of limited size, so that even a long backlog needs no more memory than one window (or one
 * record).
 */
import type { JournalFileSystem } from './file-system.ts';
import { decodeInTurns, type Frame, type FrameEnd, headerBytes } from './frame.ts';

export interface SegmentWindow {
  readonly frames: readonly Frame[];
  readonly nextOffset: number;
  /** If this is `more`, continue at `nextOffset`. */
  readonly end: FrameEnd | 'more';
}

const windowBytes = 4 * 1024 * 1024;

/**
 * Reads the complete frames from `offset` on, at least one if there is one, but never beyond `endOffset`. If the file
 * ends before that, the last frame is truncated.
 */
export async function readWindow(
  files: JournalFileSystem,
  file: string,
  offset: number,
  endOffset: number,
  maxBytes = windowBytes,
): Promise<SegmentWindow> {
  const read = (bytes: number): Promise<Buffer> => files.read(file, offset, Math.min(bytes, endOffset - offset));
  let decoded = await decodeInTurns(await read(Math.max(maxBytes, headerBytes)));
  const isLargerThanWindow = decoded.frames.length === 0 && decoded.end === 'truncated' && decoded.neededBytes > maxBytes;
  if (isLargerThanWindow && decoded.neededBytes <= endOffset - offset) decoded = await decodeInTurns(await read(decoded.neededBytes));
  const nextOffset = offset + decoded.usedBytes;
  const isCutByWindow = decoded.end !== 'damaged' && decoded.frames.length > 0 && nextOffset < endOffset;
  return { frames: decoded.frames, nextOffset, end: isCutByWindow ? 'more' : decoded.end };
}
