/**
 * Recognizes long values that were already in an earlier prompt of the project, by a fingerprint of their bytes, so
 * that we don't have to scan and search them again.
 */
import { crc32 } from 'node:zlib';
import { LRUCache } from 'lru-cache';
import { characters } from '../../core/json/characters.ts';
import { skipValue } from '../../core/json/syntax.ts';
import type { RepeatedPart } from '../../core/repeated-parts.ts';
import type { KnownRegion } from '../../dialects/json/known-regions.ts';
import { fingerprintOf } from './fingerprint.ts';
import { type Found, searchPrompt } from './search-prompt.ts';

/** Limits the cached values, which take about 300 bytes each. */
const maxValues = 10_000;
/** The minimum size of the values that we cache. Scanning a smaller value is faster than looking it up. */
const minValueBytes = 1_024;
/** We look up known values by a fingerprint of this many leading bytes. */
const headBytes = 64;
/**
 * The maximum number of cached values that begin with the same bytes. For example, different versions of an agent may
 * have tool lists that begin alike.
 */
const maxAlike = 16;
const sampleBytes = 256;

/** A long value that we've seen in a prompt, e.g. a list of tools, a system prompt or a message. */
interface KnownValue {
  readonly bytes: number;
  /**
   * Checksum of a few bytes in the middle. It rules out most values that have the same beginning but are otherwise
   * different.
   */
  readonly sample: number;
  readonly fingerprint: string;
  /**
   * What we found when we searched the value. Null until it occurs a second time, because most values never come back
   * and we don't want to search those.
   */
  found: Found | null;
}

export function createKnownValues() {
  const values = new LRUCache<string, readonly KnownValue[]>({ maxSize: maxValues, sizeCalculation: (alike) => alike.length });

  return {
    /**
     * Skips a value and returns the offset at which it ends. If we know the value from an earlier request, we don't
     * scan it, but add it to `regions`. If it's new and long enough, we remember it for the next request. In both cases
     * we also add it to `parts`, because later requests may repeat it.
     */
    skip(projectId: string, body: Buffer, at: number, regions: KnownRegion[], parts: RepeatedPart[]): number {
      if (!isDelimited(body, at)) return skipValue(body, at);
      const key = `${projectId} ${fingerprintOf(body, at, at + headBytes)}`;
      const alike = values.get(key) ?? [];
      const known = alike.find(
        ({ bytes, sample, fingerprint }) => sample === sampleOf(body, at, bytes) && fingerprint === fingerprintOf(body, at, at + bytes),
      );
      if (known) {
        const end = at + known.bytes;
        known.found ??= searchPrompt(body.subarray(at, end));
        regions.push({ start: at, end, isValue: true, fingerprint: known.fingerprint, ...known.found });
        parts.push({ start: at, end, fingerprint: known.fingerprint });
        return end;
      }
      const end = skipValue(body, at);
      if (end - at < minValueBytes) return end;
      const fingerprint = fingerprintOf(body, at, end);
      const value = { bytes: end - at, sample: sampleOf(body, at, end - at), fingerprint, found: null };
      values.set(key, [value, ...alike.slice(0, maxAlike - 1)]);
      parts.push({ start: at, end, fingerprint });
      return end;
    },
  };
}

const { openBrace, openBracket, quote } = characters;

/**
 * Checks whether the value at `at` is a string, an object or an array. The end of these is marked by a delimiter, so if
 * the bytes are equal, the values are equal too. For a number, there could be more digits after those bytes.
 */
function isDelimited(body: Buffer, at: number): boolean {
  const first = body[at];
  return first === quote || first === openBrace || first === openBracket;
}

function sampleOf(body: Buffer, at: number, bytes: number): number {
  const middle = at + Math.floor(bytes / 2);
  return crc32(body.subarray(middle, middle + sampleBytes));
}
