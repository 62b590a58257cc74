/** A kept answer as a stream: in pieces, so that a slow reader holds it up like any other. */
import type { StreamEnd, StreamPiece } from '../../vendors/stream.ts';
import type { StreamedAnswer } from '../../vendors/text.ts';
import type { Hit } from './response-cache.ts';

/** As much as the connection takes at once before it tells to wait. */
const pieceBytes = 16 * 1024;

export function replayHit({ bytes, reading }: Hit): Pick<StreamedAnswer, 'pieces' | 'reading'> {
  async function* pieces(): AsyncGenerator<StreamPiece, StreamEnd> {
    for (let at = 0; at < bytes.length; at += pieceBytes)
      yield { bytes: bytes.subarray(at, at + pieceBytes), last: at + pieceBytes >= bytes.length };
    return { kind: 'whole' };
  }
  return { pieces, reading: () => reading };
}
