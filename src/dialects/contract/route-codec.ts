/**
 * The contract of an inference route. It defines which members of a body the gateway reads, what it patches for a
 * vendor, how a response ends, and how errors are formatted. Codecs are pure, so they have no clock, I/O or logger.
 */
import type { AssistantTurn, TextRoute } from '../../core/call.ts';
import type { BodySpans, Splice } from '../../core/json/spans.ts';
import type { Tokens } from '../../core/pricing.ts';
import type { SseEvent } from '../../core/sse.ts';
import type { BillingReport } from './billing-report.ts';
import type { VendorErrorBody } from './vendor-error.ts';

/** The members of a request body that the gateway reads. We forward everything else without looking at it. */
export interface RequestSummary {
  /** Null if the member is absent or empty, which means `auto`. */
  readonly model: string | null;
  readonly stream: boolean;
  readonly maxOutputTokens: number | null;
  /** The end user that the body names in `user`, or in `metadata.user_id` on the messages route. */
  readonly user: string | null;
  /** Set if the caller of a stream didn't ask for usage, so that we drop the `usage` events. */
  readonly hidesUsage?: true;
}

/** What the gateway reads from a response. */
export interface ResponseSummary extends BillingReport {
  /** Null if the vendor didn't report any usage. */
  readonly tokens: Tokens | null;
  /** Whether `tokens` is the vendor's final count rather than an intermediate one. */
  readonly isFinal: boolean;
  readonly turn: AssistantTurn;
  /**
   * Number of characters that the model has generated so far, including its reasoning, in all choices. Plain chats and messages with final
   * counts report 0, because we don't have to estimate anything.
   */
  readonly generatedCharacters: number;
  /** Set while the vendor is still generating in the background (`background: true` on the responses route). */
  readonly isPending?: true;
  /** Whether every choice has a finish reason. Only chat and messages set this. */
  readonly finished?: boolean;
  /** The id under which the vendor keeps the response. Only set on the responses route. */
  readonly responseId?: string;
  /** The number of search units, for rerank vendors that charge by them. */
  readonly searches?: number;
}

/**
 * Tells the relay what an event means.
 *
 * - `opening`: the start of the response, without any content yet
 * - `delta`: a part of the content
 * - `end`: the last event of a complete response
 * - `error`: the vendor reports a failure (see `problem`)
 * - `usage`: an event that only reports usage, which vendors send on request
 * - `ignored`: a keep-alive or another event without content
 * - `unreadable`: data that doesn't belong to this dialect
 */
export type StreamEventKind = 'opening' | 'delta' | 'end' | 'error' | 'usage' | 'ignored' | 'unreadable';

/** Reads the events of a streamed response. */
export interface StreamReader {
  read(event: SseEvent): StreamEventKind;
  /** Reads `delta` events that only continue the text without parsing them. See `EventVisitor.skip`. */
  readonly skip?: (latin1: string, at: number) => number;
  /** Returns a summary of the events read so far. */
  summary(): ResponseSummary;
  /**
   * Reports whether the vendor has sent the complete output of all `choices`, so that only the usage and the end of the
   * stream can still be missing.
   */
  hasAllOutput(choices: number): boolean;
  /** Reports whether the response is complete even if its closing event is missing, because some vendors omit it. */
  finished(): boolean;
  /**
   * Formats the event that tells the caller about a failure. We only need this if the event depends on the events
   * before it, otherwise we use `RouteCodec.formatStreamError`.
   */
  readonly formatFailure?: (message: string) => string;
  /** Returns what the vendor reported in an `error` event, or null if there was none. */
  problem(): VendorErrorBody | null;
}

export interface RouteCodec {
  readonly route: TextRoute;
  /** The vendor's path, relative to a base URL that includes the version prefix. */
  readonly path: string;
  /** Throws the route's error if a required member is missing or has the wrong type. */
  parseRequest(body: Buffer, spans: BodySpans): RequestSummary;
  /** Returns the changes to the body for this vendor. They set the vendor's model id and ask for usage on streams. */
  patchForVendor(body: Buffer, spans: BodySpans, vendorModel: string, stream: boolean): Splice[];
  /** Parses a JSON response. Returns null if it isn't a response of this route. */
  parseResponse(bytes: Buffer): ResponseSummary | null;
  createStreamReader(): StreamReader;
  /**
   * Formats the event that reports a failure during a stream. Returns null if the dialect has no such event, in which
   * case we break the connection (docs/api/reference.md#streaming).
   */
  formatStreamError(message: string): string | null;
}
