/**
 * Replays a cached response as a stream. Like a vendor's, its chunks consist of whole events, so backpressure applies
 * to it.
 */
import type { Call } from '../../core/call.ts';
import { type ChunkReader, omitUsage } from '../../vendors/stream.ts';
import type { StreamResponse } from '../../vendors/text.ts';
import type { CacheHit } from './response-cache.ts';

/** The default high-water mark of a socket. */
const chunkBytes = 16 * 1024;

/** The cached response always includes usage. We leave it out for callers that didn't ask for it. */
export function replayCached(hit: CacheHit, { hidesUsage }: Pick<Call, 'hidesUsage'>): Pick<StreamResponse, 'chunks' | 'summary'> {
  const chunks = (): ChunkReader => {
    const bytes = hidesUsage ? omitUsage(hit) : hit.bytes;
    let at = 0;
    return {
      ready: () => Promise.resolve(),
      read() {
        if (at === bytes.length) return { kind: 'whole' };
        const start = at;
        at = findEventEnd(bytes, start, start + chunkBytes);
        return { kind: 'chunk', bytes: bytes.subarray(start, at), isLast: at === bytes.length };
      },
      close() {},
    };
  };
  return { chunks, summary: () => hit.summary };
}

const lineFeed = 0x0a;
const carriageReturn = 0x0d;

/**
 * Returns the end of the last event between `start` and `limit`. If the event that contains `limit` is larger than
 * that, returns the end of this event.
 */
function findEventEnd(bytes: Buffer, start: number, limit: number): number {
  if (limit >= bytes.length) return bytes.length;
  for (let at = bytes.lastIndexOf(lineFeed, limit - 1); at > start; at = bytes.lastIndexOf(lineFeed, at - 1)) {
    if (endsBlankLine(bytes, at)) return at + 1;
  }
  for (let at = bytes.indexOf(lineFeed, limit); at >= 0; at = bytes.indexOf(lineFeed, at + 1)) {
    if (endsBlankLine(bytes, at)) return at + 1;
  }
  return bytes.length;
}

/** Reports whether the line feed at `at` ends a blank line, which is the end of an event. */
function endsBlankLine(bytes: Buffer, at: number): boolean {
  return bytes[at - 1] === lineFeed || (bytes[at - 1] === carriageReturn && bytes[at - 2] === lineFeed);
}
