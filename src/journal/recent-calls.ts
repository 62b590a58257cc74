/**
 * Keeps settled calls in memory until they're in the database, so that the drain doesn't have to read them back from
 * the journal. If they need more than `maxBytes`, e.g. during a database outage, we stop adding calls, and the drain
 * has to read those from disk.
 */
import type { SettledCall } from '../core/call.ts';
import { countNewBytes } from '../core/repeated-parts.ts';
import { batchSize } from '../db/row-batches.ts';

/** A part of a segment, with the settled calls in it. */
export interface WrittenRange {
  readonly segment: number;
  readonly start: number;
  readonly end: number;
  readonly calls: readonly SettledCall[];
}

interface KeptRange extends WrittenRange {
  end: number;
  readonly calls: SettledCall[];
  /**
   * How much memory these calls take up. In the segment they may take up much less, because request bodies can share
   * bytes there (`shared-bytes.ts`).
   */
  bytes: number;
  newBytes: number;
  /** True if `next` has returned this range, so its calls are being stored. */
  isTaken: boolean;
}

export function createRecentCalls({ maxBytes, batchBytes }: { maxBytes: number; batchBytes: number }) {
  let ranges: KeptRange[] = [];
  let bytes = 0;
  /** The totals for calls that are waiting to be stored, i.e. for all ranges that `next` hasn't returned yet. */
  let waiting = { bytes: 0, newBytes: 0, calls: 0 };

  return {
    /** True if enough calls are waiting for a full batch. */
    get isBatchFull(): boolean {
      return waiting.calls >= batchSize || waiting.newBytes >= batchBytes || waiting.bytes >= maxBytes / 4;
    },
    /** Adds the calls of a write. The order has to be the same as in the journal. */
    add({ segment, start, end, calls }: WrittenRange): void {
      let [added, newBytes] = [0, 0];
      for (const { content } of calls) {
        if (content === null) continue;
        added += content.request.length;
        newBytes += countNewBytes(content.request);
      }
      added = Math.max(added, end - start);
      if (bytes + added > maxBytes) return;
      bytes += added;
      waiting = { bytes: waiting.bytes + added, newBytes: waiting.newBytes + newBytes, calls: waiting.calls + calls.length };
      const last = ranges.at(-1);
      if (last && !last.isTaken && last.segment === segment && last.end === start && last.calls.length < batchSize) {
        last.end = end;
        last.bytes += added;
        last.newBytes += newBytes;
        last.calls.push(...calls);
      } else {
        ranges.push({ segment, start, end, calls: [...calls], bytes: added, newBytes, isTaken: false });
      }
    },
    /**
     * Returns the calls at this position of the journal. If we don't have them in memory, `calls` is null and the
     * caller has to read them from disk, up to `end`. That's where the next calls in memory start, or `maxEnd` if that
     * comes first.
     */
    next(segment: number, offset: number, maxEnd: number): { readonly end: number; readonly calls: readonly SettledCall[] | null } {
      const range = ranges.find((kept) => kept.segment === segment && kept.start >= offset);
      if (range?.start !== offset) return { end: Math.min(maxEnd, range?.start ?? maxEnd), calls: null };
      if (!range.isTaken) {
        const calls = waiting.calls - range.calls.length;
        waiting = { bytes: waiting.bytes - range.bytes, newBytes: waiting.newBytes - range.newBytes, calls };
      }
      range.isTaken = true;
      return range;
    },
    /** Forgets calls before this position in the journal. They're in the database now. */
    removeBefore(segment: number, offset: number): void {
      const isRemoved = (range: WrittenRange): boolean => range.segment < segment || (range.segment === segment && range.end <= offset);
      for (const range of ranges.filter(isRemoved)) bytes -= range.bytes;
      ranges = ranges.filter((range) => !isRemoved(range));
    },
  };
}
