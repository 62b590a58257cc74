/** Replays a cached response as a stream, in chunks, so that back pressure applies to it. */
import type { StreamChunk, StreamEnd } from '../../vendors/stream.ts';
import type { StreamResponse } from '../../vendors/text.ts';
import type { CacheHit } from './response-cache.ts';

/** Default high-water mark of a socket. */
const chunkBytes = 16 * 1024;

export function replayCached({ bytes, summary }: CacheHit): Pick<StreamResponse, 'chunks' | 'summary'> {
  async function* chunks(): AsyncGenerator<StreamChunk, StreamEnd> {
    for (let at = 0; at < bytes.length; at += chunkBytes)
      yield { bytes: bytes.subarray(at, at + chunkBytes), isLast: at + chunkBytes >= bytes.length };
    return { kind: 'whole' };
  }
  return { chunks, summary: () => summary };
}
