/** Contract of the stream translators between the dialects. */
import type { SseEvent } from '../../core/sse.ts';

/**
 * Converts the vendor's events, in order, to the caller's events as text that is ready to send. Returns nothing before the first part of
 * the response. An interrupted stream gets neither closing events nor an error event, which `RouteCodec.formatStreamError` adds; later
 * events are ignored.
 */
export interface StreamTranslator {
  /** The caller's events for this event, possibly empty. The vendor's last event returns the closing events. */
  push(event: SseEvent): string;
  /** Call when the vendor's stream has ended: closes a response that is complete although its last event is missing. */
  end(): string;
  state(): StreamState;
}

export interface StreamState {
  /** A part of the response has been returned: from then on failover is impossible. */
  readonly begun: boolean;
  /** Null while the stream continues. */
  readonly ended: 'whole' | 'broken' | null;
  /** Why it is broken: the vendor's message if it sent one. */
  readonly problem: string | null;
  /** The event of the output that only reports usage. Absent when there is none. */
  readonly usageEvent?: string | undefined;
}
