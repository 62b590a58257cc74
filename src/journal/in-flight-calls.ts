/**
 * The calls that are in the journal without their end, by the segment that holds their beginning. A segment may only go when none of them
 * needs it: `carry` writes what is known of them anew, into the newest segment, so that one long stream does not hold back a chain of
 * segments (and the text in them). What is rewritten is a kilobyte per open call and segment.
 */
import type { CallFacts } from '../core/call.ts';
import { forgetSubjectOf } from '../core/redact-subject.ts';
import type { AttemptStart } from './record.ts';

export interface OpenCall {
  readonly facts: CallFacts;
  readonly attempts: readonly AttemptStart[];
}

interface Entry extends OpenCall {
  facts: CallFacts;
  readonly attempts: AttemptStart[];
  /** Null: its record is being written. */
  segment: number | null;
  /** Its end is being written: carrying it over could put its beginning behind its end. */
  isSettling: boolean;
  /** Its subject was erased while it ran. */
  isForgotten: boolean;
}

export function createOpenCalls() {
  // Bounded by the calls in flight.
  const entries = new Map<string, Entry>();

  return {
    get size(): number {
      return entries.size;
    },
    opening(facts: CallFacts, first: AttemptStart): void {
      entries.set(facts.id, { facts, attempts: [first], segment: null, isSettling: false, isForgotten: false });
    },
    writtenIn(callId: string, segment: number): void {
      const entry = entries.get(callId);
      if (entry) entry.segment = segment;
    },
    attempted(callId: string, attempt: AttemptStart): void {
      entries.get(callId)?.attempts.push(attempt);
    },
    settling(callId: string): void {
      const entry = entries.get(callId);
      if (entry) entry.isSettling = true;
    },
    /** Settled, or never opened after all. */
    forget(callId: string): void {
      entries.delete(callId);
    },
    /** Erasure: what is written of these calls from now on names no subject. Returns how many they are. */
    forgetSubject(isMeant: (facts: CallFacts) => boolean): number {
      const meant = [...entries.values()].filter(({ facts }) => isMeant(facts));
      for (const entry of meant) {
        entry.facts = forgetSubjectOf(entry.facts);
        entry.isForgotten = true;
      }
      return meant.length;
    },
    isForgotten: (callId: string): boolean => entries.get(callId)?.isForgotten === true,
    /** Those whose beginning is in `segment` or one before it. */
    standingIn(segment: number): { toCarry: readonly OpenCall[]; settling: number } {
      const standing = [...entries.values()].filter((entry) => entry.segment !== null && entry.segment <= segment);
      const toCarry = standing.filter((entry) => !entry.isSettling);
      return { toCarry, settling: standing.length - toCarry.length };
    },
  };
}
