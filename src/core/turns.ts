/**
 * Splits work on large buffers into pieces of about a millisecond. The event loop runs between two pieces, so other
 * calls wait for one piece at most, no matter how much work there is.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { crc32 } from 'node:zlib';

export const pieceBytes = 1_024 * 1_024;

let last: Promise<void> = Promise.resolve();

/**
 * Resolves in a later turn of the event loop. If several callers are waiting, each of them gets a turn of its own, in
 * the order in which they asked.
 */
export function takeTurn(): Promise<void> {
  last = last.then(() => nextTurn());
  return last;
}

export async function joinInTurns(chunks: readonly Uint8Array[], totalBytes: number): Promise<Buffer<ArrayBuffer>> {
  const joined = Buffer.allocUnsafeSlow(totalBytes);
  let at = 0;
  let turnEndsAt = pieceBytes;
  for (const chunk of chunks) {
    for (let from = 0; from < chunk.length; from += pieceBytes) {
      const piece = chunk.subarray(from, from + pieceBytes);
      if (at + piece.length > turnEndsAt) {
        await takeTurn();
        turnEndsAt = at + pieceBytes;
      }
      joined.set(piece, at);
      at += piece.length;
    }
  }
  return joined;
}

export async function* takeInTurns(parts: readonly Buffer[]): AsyncGenerator<Buffer, void> {
  for (const part of parts) {
    for (let from = 0; from < part.length; from += pieceBytes) {
      await takeTurn();
      yield part.subarray(from, from + pieceBytes);
    }
  }
}

export async function crc32InTurns(bytes: Uint8Array, crc = 0): Promise<number> {
  let sum = crc;
  for (let from = 0; from < bytes.length; from += pieceBytes) {
    if (from > 0) await takeTurn();
    sum = crc32(bytes.subarray(from, from + pieceBytes), sum);
  }
  return sum;
}
