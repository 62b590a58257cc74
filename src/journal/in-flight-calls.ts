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

export function createInFlightCalls() {
  const entries = new Map<string, Entry>();

  return {
    get size(): number {
      return entries.size;
    },
    add(metadata: CallMetadata, first: AttemptStart, facts: string): void {
      entries.set(metadata.id, { metadata, facts, attempts: [first], segment: null, isSettling: false, isRedacted: false });
    },
    setSegment(callId: string, segment: number): void {
      const entry = entries.get(callId);
      if (entry) entry.segment = segment;
    },
    addAttempt(callId: string, attempt: AttemptStart): void {
      entries.get(callId)?.attempts.push(attempt);
    },
    /** The call as it is to be settled; with the JSON of its metadata, if that is known and still valid. */
    beginSettling(settled: SettledCall): { readonly call: SettledCall; readonly facts?: string } {
      const entry = entries.get(settled.metadata.id);
      if (!entry) return { call: settled };
      entry.isSettling = true;
      if (entry.isRedacted) return { call: redactSubject(settled) };
      return entry.metadata === settled.metadata ? { call: settled, facts: entry.facts } : { call: settled };
    },
    /** Also for a call whose `opened` record could not be written. */
    remove(callId: string): void {
      entries.delete(callId);
    },
    /** Erasure: removes the subject from what is written about matching calls from now on. Returns their number. */
    redactSubject(matches: (call: CallMetadata) => boolean): number {
      const matching = [...entries.values()].filter(({ metadata }) => matches(metadata));
      for (const entry of matching) {
        entry.metadata = redactSubjectMetadata(entry.metadata);
        entry.isRedacted = true;
      }
      return matching.length;
    },
    /** Calls whose `opened` record is in `segment` or an earlier one. */
    callsPinning(segment: number): { toCopy: readonly InFlightCall[]; settling: number } {
      const pinning = [...entries.values()].filter((entry) => entry.segment !== null && entry.segment <= segment);
      const toCopy = pinning.filter((entry) => !entry.isSettling);
      return { toCopy, settling: pinning.length - toCopy.length };
    },
  };
}
