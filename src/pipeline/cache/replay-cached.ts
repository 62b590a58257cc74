/** A kept answer as a stream: in pieces, so that a slow reader holds it up like any other. */
import type { StreamChunk, StreamEnd } from '../../vendors/stream.ts';
import type { StreamResponse } from '../../vendors/text.ts';
import type { CacheHit } from './response-cache.ts';

/** As much as the connection takes at once before it tells to wait. */
const chunkBytes = 16 * 1024;

export function replayCached({ bytes, reading }: CacheHit): Pick<StreamResponse, 'pieces' | 'reading'> {
  async function* pieces(): AsyncGenerator<StreamChunk, StreamEnd> {
    for (let at = 0; at < bytes.length; at += chunkBytes)
      yield { bytes: bytes.subarray(at, at + chunkBytes), isLast: at + chunkBytes >= bytes.length };
    return { kind: 'whole' };
  }
  return { pieces, reading: () => reading };
}
