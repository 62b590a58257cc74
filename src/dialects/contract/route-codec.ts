/**
 * The contract of an inference route: which members of a body the gateway reads, what it patches for a vendor, how a response ends and how
 * an error is formatted. Pure: no clock, no I/O, no logger.
 */
import type { AssistantTurn, TextRoute } from '../../core/call.ts';
import type { BodySpans, Splice } from '../../core/json/spans.ts';
import type { Tokens } from '../../core/pricing.ts';
import type { SseEvent } from '../../core/sse.ts';
import type { BillingReport } from './billing-report.ts';
import type { VendorErrorBody } from './vendor-error.ts';

/** What the gateway reads from a request body; everything else is forwarded unread. */
export interface RequestSummary {
  /** Null when absent or empty, which means `auto`. */
  readonly model: string | null;
  readonly stream: boolean;
  readonly maxOutputTokens: number | null;
  /** End user named in the body (`user`, on messages `metadata.user_id`). */
  readonly user: string | null;
  /** A stream for a caller that did not ask for usage: its `usage` events are not sent. */
  readonly hidesUsage?: true;
}

/** What the gateway reads from a response. */
export interface ResponseSummary extends BillingReport {
  /** Null when the vendor reported no usage. */
  readonly tokens: Tokens | null;
  /** `tokens` is the vendor's final count, not an intermediate one. */
  readonly isFinal: boolean;
  readonly turn: AssistantTurn;
  /**
   * Number of characters that the model has generated so far, including its reasoning, in all choices. Plain chats and messages with final
   * counts report 0, because we don't have to estimate anything.
   */
  readonly generatedCharacters: number;
  /** Set while the vendor keeps generating in the background (`background: true` on responses). */
  readonly isPending?: true;
  /** Every choice has a finish reason; set for chat and messages only. */
  readonly finished?: boolean;
  /** Search units, when the vendor charges by them (rerank). */
  readonly searches?: number;
}

/**
 * What an event means for the relay:
 * `opening` start of the response, without content; `delta` part of its content; `end` the last event of a complete response; `error` the vendor reports a failure (see `problem`);
 * `usage` an event that only reports usage, which vendors send when they are asked for it; `ignored` keep-alives and events without content;
 * `unreadable` data that is not of this dialect.
 */
export type StreamEventKind = 'opening' | 'delta' | 'end' | 'error' | 'usage' | 'ignored' | 'unreadable';

/** Reads the events of one streamed response. */
export interface StreamReader {
  read(event: SseEvent): StreamEventKind;
  /** Reads `delta` events that only continue the text, without parsing them: `EventVisitor.skip`. */
  readonly skip?: (latin1: string, at: number) => number;
  /** Summary of the events read so far. */
  summary(): ResponseSummary;
  /**
   * Whether the vendor has sent all output of `choices` choices, so that only the usage and the end of the stream can
   * be missing.
   */
  hasAllOutput(choices: number): boolean;
  /** The response is complete although its closing event is missing, which some vendors omit. */
  finished(): boolean;
  /** The event that reports a failure after the events that were read. Absent if it doesn't depend on them, see `RouteCodec.formatStreamError`. */
  readonly formatFailure?: (message: string) => string;
  /** What the vendor said in an `error` event. Null before one. */
  problem(): VendorErrorBody | null;
}

export interface RouteCodec {
  readonly route: TextRoute;
  /** Path at the vendor, relative to the base URL with its version prefix. */
  readonly path: string;
  /** Throws the route's error when a required member is missing or has the wrong type. */
  parseRequest(body: Buffer, spans: BodySpans): RequestSummary;
  /** Splices for the vendor's body: its model id, and usage on streams. */
  patchForVendor(body: Buffer, spans: BodySpans, vendorModel: string, stream: boolean): Splice[];
  /** Parses a JSON response. Null when it is not a response of this route. */
  parseResponse(bytes: Buffer): ResponseSummary | null;
  createStreamReader(): StreamReader;
  /** Event that reports a failure during a stream. Null if the dialect has none, so that we break the connection (docs/api/reference.md#streaming). */
  formatStreamError(message: string): string | null;
}
