/**
 * The common part of all stream translators. Each of them has a source that reads the events of the vendor's dialect,
 * and a target that writes events of the caller's dialect. This module decides when a response starts and how it ends.
 */
import type { SseEvent } from '../../core/sse.ts';

/**
 * Converts the vendor's events to text that is ready to be sent to the caller. It returns nothing until the first part
 * of the response arrives. If the stream is interrupted, we don't send any closing events and ignore further events.
 */
export interface StreamTranslator {
  /** Returns the caller's events for this event, if any. For the vendor's last event it returns the closing events. */
  push(event: SseEvent): string;
  /**
   * Call this when the vendor's stream has ended. It closes the response if it's complete, even if the last event is
   * missing.
   */
  end(): string;
  state(): StreamState;
  /**
   * Formats the event that reports a failure after the response has started. Returns an empty string if
   * `RouteCodec.formatStreamError` creates this event.
   */
  fail(message: string): string;
}

export interface StreamState {
  /** Whether we have returned a part of the response. After this, failover is no longer possible. */
  readonly begun: boolean;
  /** Null while the stream continues. */
  readonly ended: 'whole' | 'broken' | null;
  /** The reason why the stream broke. This is the vendor's message if it sent one. */
  readonly problem: string | null;
  /** The output event that only reports usage. Absent if there is no such event. */
  readonly usageEvent?: string | undefined;
}

/** The meaning of an event. `Part` is a part of the response in the vendor's dialect. */
export type VendorEvent<Part> =
  | ({ readonly kind: 'part' } & Part)
  | { readonly kind: 'error'; readonly message: string }
  /** The last event of a complete response. */
  | { readonly kind: 'end' }
  | { readonly kind: 'keep-alive' }
  | { readonly kind: 'ignored' };

export interface StreamSource<Part> {
  /** Reads the data of an event. Comments have no data. */
  read(data: string): VendorEvent<Part>;
  /** Reports whether the response is complete even if its last event is missing. */
  isComplete(): boolean;
}

/** Each function returns events for the caller. */
export interface StreamTarget<Part> {
  /** Called with the first part, before `add` is called with the same part. */
  start(part: Part): string;
  add(part: Part): string;
  finish(): string;
  fail?(message: string): string;
  /** We send this for the vendor's keep-alives, so that proxies don't consider the connection idle. */
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
