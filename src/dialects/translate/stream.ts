/**
 * The frame of the stream translators. A translator consists of a source, which reads the events of the vendor's dialect, and a target, which
 * writes those of the caller's; the frame decides when a response begins and how it ends.
 */
import type { SseEvent } from '../../core/sse.ts';

/**
 * Converts the vendor's events, in order, to the caller's events as text that is ready to send. Returns nothing before the first part of
 * the response. An interrupted stream gets no closing events; later events are ignored.
 */
export interface StreamTranslator {
  /** The caller's events for this event, possibly empty. The vendor's last event returns the closing events. */
  push(event: SseEvent): string;
  /** Call when the vendor's stream has ended: closes a response that is complete although its last event is missing. */
  end(): string;
  state(): StreamState;
  /** The event that reports a failure after the response has begun. Empty where `RouteCodec.formatStreamError` creates it. */
  fail(message: string): string;
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

/** What an event means. `Part` is a part of the response in the vendor's dialect. */
export type VendorEvent<Part> =
  | ({ readonly kind: 'part' } & Part)
  | { readonly kind: 'error'; readonly message: string }
  /** The last event of a complete response. */
  | { readonly kind: 'end' }
  | { readonly kind: 'keep-alive' }
  | { readonly kind: 'ignored' };

export interface StreamSource<Part> {
  /** Reads the data of an event, which is empty for comments. */
  read(data: string): VendorEvent<Part>;
  /** Whether the response is complete although its last event is missing. */
  isComplete(): boolean;
}

/** Functions return the caller's events. */
export interface StreamTarget<Part> {
  /** Called with the first part, before `add`. */
  start(part: Part): string;
  add(part: Part): string;
  finish(): string;
  fail?(message: string): string;
  /** Sent for the vendor's keep-alives, so that no proxy considers the connection idle. */
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

/** A comment, which every client ignores. */
export const keepAliveComment = ': keep-alive\n\n';
/** The message of an error event that has none. */
export const unnamedProblem = 'the vendor reported an error';
