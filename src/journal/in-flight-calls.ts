/**
 * The calls that are in the journal without their end, by the segment that holds their beginning. A segment may only go when none of them
 * needs it: `carry` writes what is known of them anew, into the newest segment, so that one long stream does not hold back a chain of
 * segments (and the text in them). What is rewritten is a kilobyte per open call and segment.
 */
import type { CallMetadata } from '../core/call.ts';
import { redactSubjectMetadata } from '../core/redact-subject.ts';
import type { AttemptStart } from './record.ts';

export interface InFlightCall {
  readonly facts: CallMetadata;
  readonly attempts: readonly AttemptStart[];
}

interface Entry extends InFlightCall {
  facts: CallMetadata;
  readonly attempts: AttemptStart[];
  /** Null: its record is being written. */
  segment: number | null;
  /** Its end is being written: carrying it over could put its beginning behind its end. */
  isSettling: boolean;
  /** Its subject was erased while it ran. */
  isRedacted: boolean;
}

export function createInFlightCalls() {
  // Bounded by the calls in flight.
  const entries = new Map<string, Entry>();

  return {
    get size(): number {
      return entries.size;
    },
    add(facts: CallMetadata, first: AttemptStart): void {
      entries.set(facts.id, { facts, attempts: [first], segment: null, isSettling: false, isRedacted: false });
    },
    setSegment(callId: string, segment: number): void {
      const entry = entries.get(callId);
      if (entry) entry.segment = segment;
    },
    addAttempt(callId: string, attempt: AttemptStart): void {
      entries.get(callId)?.attempts.push(attempt);
    },
    markSettling(callId: string): void {
      const entry = entries.get(callId);
      if (entry) entry.isSettling = true;
    },
    /** Settled, or never opened after all. */
    remove(callId: string): void {
      entries.delete(callId);
    },
    /** Erasure: what is written of these calls from now on names no subject. Returns how many they are. */
    redactSubject(matches: (facts: CallMetadata) => boolean): number {
      const matching = [...entries.values()].filter(({ facts }) => matches(facts));
      for (const entry of matching) {
        entry.facts = redactSubjectMetadata(entry.facts);
        entry.isRedacted = true;
      }
      return matching.length;
    },
    isRedacted: (callId: string): boolean => entries.get(callId)?.isRedacted === true,
    /** Those whose beginning is in `segment` or one before it. */
    callsPinning(segment: number): { toCopy: readonly InFlightCall[]; markSettling: number } {
      const pinning = [...entries.values()].filter((entry) => entry.segment !== null && entry.segment <= segment);
      const toCopy = pinning.filter((entry) => !entry.isSettling);
      return { toCopy, markSettling: pinning.length - toCopy.length };
    },
  };
}
