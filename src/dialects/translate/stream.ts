/**
 * Code shared by all stream translators. Each has a source that reads events in the vendor's dialect, and a target that
 * writes events in the caller's dialect. This module decides when a response starts and how it ends.
 */
import type { SseEvent } from '../../core/sse.ts';

/**
 * Converts the vendor's events to text that is ready to be sent to the caller. It returns nothing until the first part
 * of the response arrives. If the stream is interrupted, there are no closing events and further events are ignored.
 */
export interface StreamTranslator {
  /**
   * Translates an event from the vendor. Returns the events for the caller, if there are any. For the vendor's last
   * event, these are the closing events.
   */
  push(event: SseEvent): string;
  /**
   * Call this when the vendor's stream has ended. It closes the response if it's complete, even if the last event is
   * missing.
   */
  end(): string;
  state(): StreamState;
  /**
   * Formats an event for a failure in the middle of a response. Returns an empty string if that's up to
   * `RouteCodec.formatStreamError`.
   */
  fail(message: string): string;
}

export interface StreamState {
  /** True if we have returned a part of the response. From then on, failover isn't possible. */
  readonly begun: boolean;
  /** Says how the stream ended. Null while it continues. */
  readonly ended: 'whole' | 'broken' | null;
  /** Why the stream broke. This is the vendor's message if there was one. */
  readonly problem: string | null;
  /** The event that does nothing but report usage. Absent if the dialect doesn't have one. */
  readonly usageEvent?: string | undefined;
}

/**
 * An event of a vendor's stream after we've interpreted it. A `Part` is a piece of the response in the vendor's
 * dialect.
 */
export type VendorEvent<Part> =
  | ({ readonly kind: 'part' } & Part)
  | { readonly kind: 'error'; readonly message: string }
  /** Ends a complete response. */
  | { readonly kind: 'end' }
  | { readonly kind: 'keep-alive' }
  | { readonly kind: 'ignored' };

export interface StreamSource<Part> {
  /** Parses the data of an event. Not called for comments. */
  read(data: string): VendorEvent<Part>;
  /** Returns true if the response is complete even if its last event is missing. */
  isComplete(): boolean;
}

/** Each function returns the events that it sends to the caller. */
export interface StreamTarget<Part> {
  /** Starts the response. We call this with the first part, and then pass the same part to `add`. */
  start(part: Part): string;
  add(part: Part): string;
  finish(): string;
  fail?(message: string): string;
  /** Sent to the caller when the vendor sends a keep-alive, so that proxies don't consider the connection idle. */
  readonly keepAlive: string;
}

export function createStreamTranslator<Part>(source: StreamSource<Part>, target: StreamTarget<Part>): StreamTranslator {
  let begun = false;
  let ended: StreamState['ended'] = null;
  let problem: string | null = null;

  const add = (part: Part): string => {
    if (begun) return target.add(part);
    begun = true;
    return target.start(part) + target.add(part);
  };

  const finish = (): string => {
    ended = 'whole';
    return target.finish();
  };

  const fail = (reason: string): string => {
    ended = 'broken';
    problem = reason;
    return '';
  };

  return {
    push({ data }) {
      if (ended !== null) return '';
      const event = source.read(data);
      switch (event.kind) {
        case 'part':
          return add(event);
        case 'error':
          return fail(event.message);
        case 'end':
          return begun ? finish() : '';
        case 'keep-alive':
          return begun ? target.keepAlive : '';
        case 'ignored':
          return '';
      }
    },
    end() {
      if (ended !== null) return '';
      return source.isComplete() ? finish() : fail('the vendor ended the stream early');
    },
    state: () => ({ begun, ended, problem }),
    fail: target.fail ?? (() => ''),
  };
}

/** An SSE comment, which every client ignores. */
export const keepAliveComment = ': keep-alive\n\n';
/** Fallback message for error events that don't have one. */
export const unnamedProblem = 'the vendor reported an error';
