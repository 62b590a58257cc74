/**
 * Calls whose `opened` record is in the journal and whose `settled` record is not. A segment can only be deleted when none of their `opened`
 * records is in it. The journal therefore copies these records to the newest segment (a kilobyte per call and segment), so that one long
 * stream does not retain a chain of segments with the texts in them.
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
  /** JSON of the metadata with which the call was opened. */
  readonly facts: string;
  /** Segment of the `opened` record. Null while it is being written. */
  segment: number | null;
  /** The `settled` record is being written: a copy of the `opened` record could end up after it. */
  isSettling: boolean;
  /** The subject was erased while the call ran. */
  isRedacted: boolean;
}

/**
 * The values of the map, emptied on removal. A table that V8 replaces refers to the next one and to the values of its time, and when one of them
 * is in the old space, all that follow are kept until that is collected: 2 kB per call, copied twice (measured).
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
    /** The call as it is to be settled; with the JSON of its metadata, if that is known and still valid. */
    beginSettling(settled: SettledCall): { readonly call: SettledCall; readonly facts?: string } {
      const entry = find(settled.metadata.id);
      if (!entry) return { call: settled };
      entry.isSettling = true;
      if (entry.isRedacted) return { call: redactSubject(settled) };
      return entry.metadata === settled.metadata ? { call: settled, facts: entry.facts } : { call: settled };
    },
    /** Also for a call whose `opened` record could not be written. */
    remove(callId: string): void {
      const slot = slots.get(callId);
      if (!slot) return;
      slot.entry = null;
      slots.delete(callId);
    },
    /** Erasure: removes the subject from what is written about matching calls from now on. Returns their number. */
    redactSubject(matches: (call: CallMetadata) => boolean): number {
      const matching = entries().filter(({ metadata }) => matches(metadata));
      for (const entry of matching) {
        entry.metadata = redactSubjectMetadata(entry.metadata);
        entry.isRedacted = true;
      }
      return matching.length;
    },
    /** Calls whose `opened` record is in `segment` or an earlier one. */
    callsPinning(segment: number): { toCopy: readonly InFlightCall[]; settling: number } {
      const pinning = entries().filter((entry) => entry.segment !== null && entry.segment <= segment);
      const toCopy = pinning.filter((entry) => !entry.isSettling);
      return { toCopy, settling: pinning.length - toCopy.length };
    },
  };
}
