/**
 * The interface that each inference route implements. It defines which fields of a body the gateway reads, what it
 * patches for a vendor, how a response ends, and how errors are formatted. Codecs are pure, so they have no clock, I/O
 * or logger.
 */
import type { AssistantTurn, TextRoute } from '../../core/call.ts';
import type { BodySpans, Splice } from '../../core/json/spans.ts';
import type { Tokens } from '../../core/pricing.ts';
import type { SseEvent } from '../../core/sse.ts';
import type { BillingReport } from './billing-report.ts';
import type { VendorErrorBody } from './vendor-error.ts';

/** The fields of a request body that the gateway reads. We forward everything else without looking at it. */
export interface RequestSummary {
  /** Null stands for `auto`, i.e. the field is missing or empty. */
  readonly model: string | null;
  readonly stream: boolean;
  readonly maxOutputTokens: number | null;
  /** The end user in the body's `user` field, or in `metadata.user_id` on the messages route. */
  readonly user: string | null;
  /** Set if a stream's caller doesn't want usage. We drop the `usage` events then. */
  readonly hidesUsage?: true;
}

/** The information that a codec reads from a response. */
export interface ResponseSummary extends BillingReport {
  /** Null if the vendor reported no usage. */
  readonly tokens: Tokens | null;
  /** True if `tokens` is the vendor's final count rather than an intermediate one. */
  readonly isFinal: boolean;
  readonly turn: AssistantTurn;
  /**
   * The number of characters that the model has generated so far in all choices, including reasoning. It's 0 for JSON
   * responses of chat and messages that have final token counts, because then there's nothing to estimate.
   */
  readonly generatedCharacters: number;
  /** Set if the vendor goes on generating in the background (`background: true` on the responses route). */
  readonly isPending?: true;
  /** True if every choice has a finish reason. Only the codecs for chat and messages set this. */
  readonly finished?: boolean;
  /** Id of the response at the vendor. Only on the responses route. */
  readonly responseId?: string;
  /** The number of search units. Some rerank vendors charge by these. */
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
  /** Returns a summary of the events read so far. */
  summary(): ResponseSummary;
  /**
   * Returns true if the vendor has sent the complete output of all `choices`. The usage and the end of the stream can
   * still be missing.
   */
  hasAllOutput(choices: number): boolean;
  /** Checks whether the response is complete even if its closing event is missing, because some vendors omit it. */
  finished(): boolean;
  /**
   * Formats the event that tells the caller about a failure. Only codecs whose event depends on earlier events have
   * this function, e.g. because they number the events. All others use `RouteCodec.formatStreamError`.
   */
  readonly formatFailure?: (message: string) => string;
  /** Returns what the vendor reported in an `error` event, or null if there wasn't any. */
  problem(): VendorErrorBody | null;
}

export interface RouteCodec {
  readonly route: TextRoute;
  /** The vendor's path, relative to a base URL that includes the version prefix. */
  readonly path: string;
  /**
   * Reads the fields of a request. Throws the route's own errors if a required one is missing or has the wrong type.
   */
  parseRequest(body: Buffer, spans: BodySpans): RequestSummary;
  /**
   * Returns the edits that turn the caller's body into the one for this vendor. They set the vendor's model id and ask
   * for usage in streams.
   */
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
