/**
 * All stream translators share this code. Each of them has a source, which reads events in the vendor's dialect, and a
 * target, which writes events in the caller's dialect. This module decides when a response starts and how it ends.
 */
import type { SseEvent } from '../../core/sse.ts';

/**
 * Translates the vendor's events to text for the caller. Nothing is sent until the first part of the response arrives.
 * Once the stream was interrupted, we ignore further events and don't write any closing events.
 */
export interface StreamTranslator {
  /**
   * Takes an event of the vendor and returns the caller's events, if there are any. The vendor's last event results in
   * the closing events.
   */
  push(event: SseEvent): string;
  /**
   * Call this when the vendor has ended its stream. Closes the response if it's complete, even if the vendor's last
   * event is missing.
   */
  end(): string;
  state(): StreamState;
  /**
   * Formats the event that tells the caller about a failure in the middle of a response. Returns an empty string if
   * `RouteCodec.formatStreamError` should do that instead.
   */
  fail(message: string): string;
}

export interface StreamState {
  /** True once a part of the response was returned to the caller, which makes failover impossible. */
  readonly begun: boolean;
  /** Null while the stream continues. */
  readonly ended: 'whole' | 'broken' | null;
  /** Why the stream broke. This is the vendor's message if it sent one. */
  readonly problem: string | null;
  /** The caller's event that only contains the usage. Undefined if there isn't one. */
  readonly usageEvent?: string | undefined;
}

/**
 * An event in the vendor's stream, together with its meaning. A `Part` is a piece of the response in the vendor's
 * dialect.
 */
export type VendorEvent<Part> =
  | ({ readonly kind: 'part' } & Part)
  | { readonly kind: 'error'; readonly message: string }
  | { readonly kind: 'end' }
  | { readonly kind: 'keep-alive' }
  | { readonly kind: 'ignored' };

export interface StreamSource<Part> {
  /** Parses the data of an event, which is empty for comments and keep-alives. */
  read(data: string): VendorEvent<Part>;
  /** Returns true if the response is complete, even if its last event hasn't arrived. */
  isComplete(): boolean;
}

export interface StreamTarget<Part> {
  /** Starts the response. Called with the first part, which is then also passed to `add`. */
  start(part: Part): string;
  add(part: Part): string;
  finish(): string;
  fail?(message: string): string;
  /** Sent to the caller for each keep-alive of the vendor, so that proxies don't consider the connection idle. */
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
/** Fallback message for error events that don't include one. */
export const unnamedProblem = 'the vendor reported an error';
