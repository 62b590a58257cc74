/**
 * What the gateway must know of an inference route: where the few things stand that it reads of a body, what it changes on the way to a
 * vendor, how an answer ends, and how an error looks. Pure: no clock, no I/O, no logger.
 */
import type { AssistantTurn, TextRoute } from '../../core/call.ts';
import type { BodySpans, Splice } from '../../core/json/spans.ts';
import type { Tokens } from '../../core/pricing.ts';
import type { SseEvent } from '../../core/sse.ts';

/** What the gateway reads of a request body; everything else goes to the vendor unread. */
export interface RequestSummary {
  /** Null when absent or empty: the call uses `auto`. */
  readonly model: string | null;
  readonly stream: boolean;
  readonly maxOutputTokens: number | null;
  /** End user named in the body (`user`, on messages `metadata.user_id`). */
  readonly user: string | null;
}

/** What the gateway reads of an answer. */
export interface ResponseSummary {
  /** Null: the vendor reported no usage. */
  readonly tokens: Tokens | null;
  /** `tokens` is the vendor's last word, not a count on the way. */
  readonly isFinal: boolean;
  readonly turn: AssistantTurn;
  /** The answer says why it ended, in all of its choices; only chat and messages look. */
  readonly finished?: boolean;
  /** Search units, where the vendor charges by them (rerank). */
  readonly searches?: number;
}

/**
 * What an event means for the relay:
 * `piece` part of the answer; `end` the last event of a whole answer; `error` the vendor reports a failure (`problem` says which);
 * `ignored` keep-alives and events that say nothing of the answer; `unreadable` data that is not of this dialect.
 */
export type StreamEventKind = 'piece' | 'end' | 'error' | 'ignored' | 'unreadable';

/** Follows one streamed answer. */
export interface StreamReader {
  read(event: SseEvent): StreamEventKind;
  /** What has been read so far. */
  summary(): ResponseSummary;
  /** The answer is whole although its closing event is missing (some vendors omit it). */
  finished(): boolean;
  /** The vendor's own words of an `error` event, null when it gave none. */
  problem(): string | null;
}

export interface RouteCodec {
  readonly route: TextRoute;
  /** Tail of the vendor's address, behind the base address with its version prefix. */
  readonly path: string;
  /** Throws the route's error when a member the gateway needs is missing or of the wrong type. */
  parseRequest(body: Buffer, spans: BodySpans): RequestSummary;
  /** The changes on the way to a vendor: its model id, and usage on streams. */
  patchForVendor(body: Buffer, spans: BodySpans, vendorModel: string, stream: boolean): Splice[];
  /** Reads a plain answer; null when it is none of this route. */
  parseResponse(bytes: Buffer): ResponseSummary | null;
  createStreamReader(): StreamReader;
  /** Event that tells the caller of a failure in the middle of a stream; null: the stream just stops (specification 6). */
  formatStreamError(message: string): string | null;
}
