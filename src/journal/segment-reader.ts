/** Reads a segment in windows of bounded size, so that a backlog of any length is worked off in the memory of one window (or one record). */
import { open } from 'node:fs/promises';
import { decodeFrames, type Frame, type FrameStop, headerBytes } from './frame.ts';

export interface SegmentWindow {
  readonly frames: readonly Frame[];
  /** Where to read on. */
  readonly nextOffset: number;
  /** `more`: there is more to read at `nextOffset`. */
  readonly stop: FrameStop | 'more';
}

const windowBytes = 4 * 1024 * 1024;

/** The whole frames from `offset` on, at least one if there is one; `endOffset` is the length of what may be read. */
export async function readWindow(file: string, offset: number, endOffset: number, maxBytes = windowBytes): Promise<SegmentWindow> {
  const handle = await open(file, 'r');
  try {
    const read = async (bytes: number): Promise<Buffer> => {
      const buffer = Buffer.allocUnsafeSlow(Math.min(bytes, endOffset - offset));
      let at = 0;
      while (at < buffer.length) {
        const { bytesRead } = await handle.read(buffer, at, buffer.length - at, offset + at);
        if (bytesRead === 0) break; // Shorter than it should be: what is missing shows as a frame that is cut.
        at += bytesRead;
      }
      return buffer.subarray(0, at);
    };
    let run = decodeFrames(await read(Math.max(maxBytes, headerBytes)));
    const isLargerThanWindow = run.frames.length === 0 && run.stop === 'cut' && run.neededBytes > maxBytes;
    if (isLargerThanWindow && run.neededBytes <= endOffset - offset) run = decodeFrames(await read(run.neededBytes));
    const nextOffset = offset + run.usedBytes;
    const isCutByWindow = run.stop !== 'damaged' && run.frames.length > 0 && nextOffset < endOffset;
    return { frames: run.frames, nextOffset, stop: isCutByWindow ? 'more' : run.stop };
  } finally {
    await handle.close();
  }
}
