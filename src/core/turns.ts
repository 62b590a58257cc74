/**
 * Splits work on large buffers into pieces that take about a millisecond. Other calls can run between two pieces, so
 * they never wait for more than one piece, no matter how large the buffer is.
 */
import { setImmediate as nextTurn, setTimeout as wait } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { createLoadMeter, type Load, type LoadOptions } from './event-loop-load.ts';

export const pieceBytes = 1_024 * 1_024;

/**
 * How long we pause between two pieces if other work keeps the event loop busy. A piece only takes about a millisecond,
 * but it also causes garbage collections and work in other threads.
 */
const pauseMs: Readonly<Record<Exclude<Load, 'light'>, number>> = { busy: 10, saturated: 50 };
/** If the event loop isn't busy, we let other work run for up to this long between two pieces. */
const othersMs = 4;
/** If a turn of the event loop is shorter than this, there was no other work to do. */
const idleTurnMs = 0.2;
/** We assume that a piece takes no longer than this, because we can't measure it separately from other work. */
const maxPieceMs = 2;

export interface TurnsOptions extends Omit<LoadOptions, 'ownMs'> {
  readonly readLoad?: () => Load;
}

/**
 * Returns a function that resolves when the caller may do a piece of work. If several callers are waiting, they get
 * their turns in the order in which they asked, whichever project they work for. While the event loop is busy, all
 * large buffers together get about a tenth of its time, and a fiftieth while it's saturated. Otherwise they get
 * whatever is left.
 */
export function createTurns({ readLoad, ...clocks }: TurnsOptions = {}): () => Promise<void> {
  const { now = () => performance.now() } = clocks;
  let last: Promise<void> = Promise.resolve();
  let ownMs = 0;
  const readLoadOfOthers = readLoad ?? createLoadMeter({ ...clocks, ownMs: () => ownMs });
  const letOthersRun = async (): Promise<void> => {
    const load = readLoadOfOthers();
    if (load === 'light') await letOthersRunOnce();
    else await wait(pauseMs[load]);
    // The next piece runs now. A turn can be much longer than the piece, because it includes other work.
    const startedAt = now();
    setImmediate(() => {
      ownMs += Math.min(now() - startedAt, maxPieceMs);
    });
  };
  const letOthersRunOnce = async (): Promise<void> => {
    const startedAt = now();
    for (let turnEndedAt = startedAt; ; ) {
      const turnStartedAt = turnEndedAt;
      await nextTurn();
      turnEndedAt = now();
      if (turnEndedAt - turnStartedAt < idleTurnMs || turnEndedAt - startedAt >= othersMs) return;
    }
  };
  return () => {
    last = last.then(letOthersRun);
    return last;
  };
}

export const takeTurn = createTurns();

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
