/**
 * Tracks calls that have an `opened` record in the journal, but no `settled` record yet. We can only delete a segment
 * that contains none of their `opened` records, so the journal copies these records to the newest segment (a kilobyte
 * per call and segment). Otherwise a single long stream would keep a chain of segments, and the texts in them, on disk.
 */
import type { CallMetadata, SettledCall } from '../core/call.ts';
import { redactSubject, redactSubjectMetadata } from '../core/redact-subject.ts';
import type { AttemptStart } from './record.ts';

export interface InFlightCall {
  readonly metadata: CallMetadata;
  readonly attempts: readonly AttemptStart[];
}

interface Entry extends InFlightCall {
  metadata: CallMetadata;
  readonly attempts: AttemptStart[];
  /** The JSON of the metadata with which the call was opened. */
  readonly facts: string;
  /** The segment of the `opened` record. Null while the record is being written. */
  segment: number | null;
  /**
   * True while the `settled` record is being written. Until it is done we don't copy the `opened` record, because the
   * copy could end up after it.
   */
  isSettling: boolean;
  /** True if the subject was erased while the call was running. */
  isRedacted: boolean;
}

/**
 * Wraps an entry so that we can clear it when the call is removed. When V8 replaces the table of a map, the old table
 * keeps references to the next one and to its values. If one of these tables is in the old space, all later ones are
 * retained until it's collected. That was 2 kB per call, copied twice (measured).
 */
interface Slot {
  entry: Entry | null;
}

export function createInFlightCalls() {
  const slots = new Map<string, Slot>();
  const find = (callId: string): Entry | null => slots.get(callId)?.entry ?? null;
  const entries = (): Entry[] => [...slots.values()].flatMap(({ entry }) => entry ?? []);

  return {
    get size(): number {
      return slots.size;
    },
    add(metadata: CallMetadata, first: AttemptStart, facts: string): void {
      const entry = { metadata, facts, attempts: [first], segment: null, isSettling: false, isRedacted: false };
      slots.set(metadata.id, { entry });
    },
    setSegment(callId: string, segment: number): void {
      const entry = find(callId);
      if (entry) entry.segment = segment;
    },
    addAttempt(callId: string, attempt: AttemptStart): void {
      find(callId)?.attempts.push(attempt);
    },
    /** Returns the call as it should be settled, with the JSON of its metadata if we have it and it's still valid. */
    beginSettling(settled: SettledCall): { readonly call: SettledCall; readonly facts?: string } {
      const entry = find(settled.metadata.id);
      if (!entry) return { call: settled };
      entry.isSettling = true;
      if (entry.isRedacted) return { call: redactSubject(settled) };
      return entry.metadata === settled.metadata ? { call: settled, facts: entry.facts } : { call: settled };
    },
    /** Removes a call. Also used if its `opened` record couldn't be written. */
    remove(callId: string): void {
      const slot = slots.get(callId);
      if (!slot) return;
      slot.entry = null;
      slots.delete(callId);
    },
    /**
     * Removes the subject from everything that we write about matching calls from now on, for an erasure. Returns the
     * number of these calls.
     */
    redactSubject(matches: (call: CallMetadata) => boolean): number {
      const matching = entries().filter(({ metadata }) => matches(metadata));
      for (const entry of matching) {
        entry.metadata = redactSubjectMetadata(entry.metadata);
        entry.isRedacted = true;
      }
      return matching.length;
    },
    /** Finds the calls whose `opened` record is in `segment` or an earlier one. */
    callsPinning(segment: number): { toCopy: readonly InFlightCall[]; settling: number } {
      const pinning = entries().filter((entry) => entry.segment !== null && entry.segment <= segment);
      const toCopy = pinning.filter((entry) => !entry.isSettling);
      return { toCopy, settling: pinning.length - toCopy.length };
    },
  };
}
