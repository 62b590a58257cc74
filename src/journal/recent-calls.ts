/**
 * The settled calls that this process has written to its journal and not yet to the database, so that the drain need not read them back.
 * Bounded by their bytes in the journal: beyond the bound, as in an outage of the database, calls are not kept, and the drain reads their part
 * of the journal from disk.
 */
import type { SettledCall } from '../core/call.ts';
import { batchSize } from '../db/row-batches.ts';

/** Bytes of a segment, and the settled calls in them. */
export interface WrittenRange {
  readonly segment: number;
  readonly start: number;
  readonly end: number;
  readonly calls: readonly SettledCall[];
}

interface KeptRange extends WrittenRange {
  end: number;
  readonly calls: SettledCall[];
  /** Being stored. */
  isTaken: boolean;
}

export function createRecentCalls({ maxBytes, batchBytes }: { maxBytes: number; batchBytes: number }) {
  let ranges: KeptRange[] = [];
  let bytes = 0;
  /** Of the ranges that `next` has not returned. */
  let waiting = { bytes: 0, calls: 0 };

  return {
    /** The calls that are not being stored yet are enough for a batch. */
    get isBatchFull(): boolean {
      return waiting.calls >= batchSize || waiting.bytes >= batchBytes;
    },
    /** To be called in the order of the journal. */
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
    /** The next bytes from `offset` on: with their calls, or with null when they must be read from disk, then at most up to `maxEnd`. */
    next(segment: number, offset: number, maxEnd: number): { readonly end: number; readonly calls: readonly SettledCall[] | null } {
      const range = ranges.find((kept) => kept.segment === segment && kept.start >= offset);
      if (range?.start !== offset) return { end: Math.min(maxEnd, range?.start ?? maxEnd), calls: null };
      if (!range.isTaken) waiting = { bytes: waiting.bytes - range.end + range.start, calls: waiting.calls - range.calls.length };
      range.isTaken = true;
      return range;
    },
    /** Forgets the calls before this position. */
    removeBefore(segment: number, offset: number): void {
      const isRemoved = (range: WrittenRange): boolean => range.segment < segment || (range.segment === segment && range.end <= offset);
      for (const range of ranges.filter(isRemoved)) bytes -= range.end - range.start;
      ranges = ranges.filter((range) => !isRemoved(range));
    },
  };
}
