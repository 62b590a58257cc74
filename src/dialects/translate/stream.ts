/** A streamed answer on its way from one dialect to the other. */
import type { SseEvent } from '../../core/sse.ts';

/**
 * Takes the vendor's events in order and gives the caller's, as text that is ready to send. Nothing comes out before the first piece
 * of the answer. A stream that breaks gets no closing events and no error event either: how a caller is told is its dialect's rule
 * (`RouteRules.interruption`), and what comes after the break is not read.
 */
export interface StreamTranslator {
  /** Events that the caller gets for this one; empty for none. The events that close a whole answer come with the vendor's last event. */
  push(event: SseEvent): string;
  /** The vendor's stream has ended: closes an answer that is whole although its last event is missing. */
  end(): string;
  state(): StreamState;
}

export interface StreamState {
  /** A piece of the answer has come out: from here on no other model can be tried. */
  readonly begun: boolean;
  /** Null: the stream goes on. */
  readonly ended: 'whole' | 'broken' | null;
  /** Why it is broken: the vendor's words if it gave any. */
  readonly problem: string | null;
}
