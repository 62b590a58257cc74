/**
 * Tracks calls that have an `opened` record in the journal but no `settled` record yet. A segment can only be deleted
 * if it contains none of their `opened` records, so the journal copies those records to the newest segment (a kilobyte
 * per call and segment). Without the copies, one long stream would keep a whole chain of segments on disk, with all
 * their texts.
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
  /** The call's metadata as JSON, as it was when the call was opened. */
  readonly facts: string;
  /** The number of the segment that contains the `opened` record, or null until we've written it. */
  segment: number | null;
  /**
   * Set while the `settled` record is being written. We don't copy the `opened` record during that time, because the
   * copy could end up behind it.
   */
  isSettling: boolean;
  isRedacted: boolean;
}

/**
 * We wrap entries so that we can clear them when a call is removed. When V8 grows a map, the old table keeps references
 * to the new table and its values. As soon as one of these tables is in the old space, all later ones stay in memory
 * until it's collected. Without the wrapper, we measured another 2 kB of memory per call, which V8 also copied twice.
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
    /**
     * Returns the call to settle. If its metadata hasn't changed since it was opened, also returns the metadata as JSON
     * (`facts`), which saves the caller from encoding it again.
     */
    beginSettling(settled: SettledCall): { readonly call: SettledCall; readonly facts?: string } {
      const entry = find(settled.metadata.id);
      if (!entry) return { call: settled };
      entry.isSettling = true;
      if (entry.isRedacted) return { call: redactSubject(settled) };
      return entry.metadata === settled.metadata ? { call: settled, facts: entry.facts } : { call: settled };
    },
    /** Stops tracking a call. You also have to call this if the `opened` record couldn't be written. */
    remove(callId: string): void {
      const slot = slots.get(callId);
      if (!slot) return;
      slot.entry = null;
      slots.delete(callId);
    },
    /**
     * Removes the subject from matching calls when it's erased, so that nothing we write about them from now on
     * contains it. Returns how many calls match.
     */
    redactSubject(matches: (call: CallMetadata) => boolean): number {
      const matching = entries().filter(({ metadata }) => matches(metadata));
      for (const entry of matching) {
        entry.metadata = redactSubjectMetadata(entry.metadata);
        entry.isRedacted = true;
      }
      return matching.length;
    },
    /**
     * Finds the calls that keep us from deleting `segment`, because their `opened` record is in this segment or in an
     * earlier one.
     */
    callsPinning(segment: number): { toCopy: readonly InFlightCall[]; settling: number } {
      const pinning = entries().filter((entry) => entry.segment !== null && entry.segment <= segment);
      const toCopy = pinning.filter((entry) => !entry.isSettling);
      return { toCopy, settling: pinning.length - toCopy.length };
    },
  };
}
