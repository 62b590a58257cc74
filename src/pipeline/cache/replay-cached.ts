/** Replays a cached response as a stream, in chunks, so that back pressure applies to it. */
import type { Call } from '../../core/call.ts';
import { omitUsage, type StreamChunk, type StreamEnd } from '../../vendors/stream.ts';
import type { StreamResponse } from '../../vendors/text.ts';
import type { CacheHit } from './response-cache.ts';

/** Default high-water mark of a socket. */
const chunkBytes = 16 * 1024;

/** Without usage for a caller that did not ask for it: the cached response has it for those that do. */
export function replayCached(hit: CacheHit, { hidesUsage }: Pick<Call, 'hidesUsage'>): Pick<StreamResponse, 'chunks' | 'summary'> {
  async function* chunks(): AsyncGenerator<StreamChunk, StreamEnd> {
    const bytes = hidesUsage ? omitUsage(hit) : hit.bytes;
    for (let at = 0; at < bytes.length; at += chunkBytes)
      yield { bytes: bytes.subarray(at, at + chunkBytes), isLast: at + chunkBytes >= bytes.length };
    return { kind: 'whole' };
  }
  return { chunks, summary: () => hit.summary };
}
