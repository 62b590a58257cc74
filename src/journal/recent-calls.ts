/**
 * Keeps the settled calls that this process has written to its journal but not to the database yet, so that the drain
 * doesn't have to read them back. If they exceed `maxBytes`, e.g. during a database outage, we don't keep further
 * calls, and the drain reads that part of the journal from disk.
 */
import type { SettledCall } from '../core/call.ts';
import { batchSize } from '../db/row-batches.ts';

/** A range of bytes in a segment, and the settled calls in it. */
export interface WrittenRange {
  readonly segment: number;
  readonly start: number;
  readonly end: number;
  readonly calls: readonly SettledCall[];
}

interface KeptRange extends WrittenRange {
  end: number;
  readonly calls: SettledCall[];
  /** True once `next` has returned the range, because its calls are being stored now. */
  isTaken: boolean;
}

export function createRecentCalls({ maxBytes, batchBytes }: { maxBytes: number; batchBytes: number }) {
  let ranges: KeptRange[] = [];
  let bytes = 0;
  /** Counts the ranges that `next` hasn't returned yet. */
  let waiting = { bytes: 0, calls: 0 };

  return {
    /** Reports whether the calls that aren't being stored yet are enough for a batch. */
    get isBatchFull(): boolean {
      return waiting.calls >= batchSize || waiting.bytes >= batchBytes;
    },
    /** Adds the range of a write. Has to be called in the order of the journal. */
    add({ segment, start, end, calls }: WrittenRange): void {
      if (bytes + end - start > maxBytes) return;
      bytes += end - start;
      waiting = { bytes: waiting.bytes + end - start, calls: waiting.calls + calls.length };
      const last = ranges.at(-1);
      if (last && !last.isTaken && last.segment === segment && last.end === start && last.calls.length < batchSize) {
        last.end = end;
        last.calls.push(...calls);
      } else {
        ranges.push({ segment, start, end, calls: [...calls], isTaken: false });
      }
    },
    /**
     * Returns the next range from `offset` on. If its calls have to be read from disk, they are null and the range ends
     * at `maxEnd` at the latest.
     */
    next(segment: number, offset: number, maxEnd: number): { readonly end: number; readonly calls: readonly SettledCall[] | null } {
      const range = ranges.find((kept) => kept.segment === segment && kept.start >= offset);
      if (range?.start !== offset) return { end: Math.min(maxEnd, range?.start ?? maxEnd), calls: null };
      if (!range.isTaken) waiting = { bytes: waiting.bytes - range.end + range.start, calls: waiting.calls - range.calls.length };
      range.isTaken = true;
      return range;
    },
    /** Drops the calls before this position. */
    removeBefore(segment: number, offset: number): void {
      const isRemoved = (range: WrittenRange): boolean => range.segment < segment || (range.segment === segment && range.end <= offset);
      for (const range of ranges.filter(isRemoved)) bytes -= range.end - range.start;
      ranges = ranges.filter((range) => !isRemoved(range));
    },
  };
}
