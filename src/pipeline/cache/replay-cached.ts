/**
 * Replays a cached response as a stream. Like a vendor, we end each chunk at the end of an event.
 */
import type { Call } from '../../core/call.ts';
import { type ChunkReader, omitUsage } from '../../vendors/stream.ts';
import type { StreamResponse } from '../../vendors/text.ts';
import type { CacheHit } from './response-cache.ts';

/** Replay in chunks of this size, which is the default high-water mark of a socket. */
const chunkBytes = 16 * 1024;

/**
 * Returns a cached response as a stream. Cached responses always include usage, so we remove it if the caller didn't
 * ask for it.
 */
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
        return { kind: 'chunk', bytes: bytes.subarray(start, at), events: [], isLast: at === bytes.length };
      },
      close() {},
    };
  };
  return { chunks, summary: () => hit.summary };
}

const lineFeed = 0x0a;
const carriageReturn = 0x0d;

/**
 * Returns the end of the last event between `start` and `limit`. If no event ends there, returns the end of the event
 * that contains `limit`.
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

/** Returns true if the line feed at `at` ends a blank line, and therefore an event. */
function endsBlankLine(bytes: Buffer, at: number): boolean {
  return bytes[at - 1] === lineFeed || (bytes[at - 1] === carriageReturn && bytes[at - 2] === lineFeed);
}
