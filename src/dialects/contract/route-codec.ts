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

/** The fields of a request body that the gateway reads. All other fields are forwarded unread. */
export interface RequestSummary {
  /** Null if the field is missing or empty. The gateway then chooses a model (`auto`). */
  readonly model: string | null;
  readonly stream: boolean;
  readonly maxOutputTokens: number | null;
  /**
   * The end user that the caller named in `user`, or in `metadata.user_id` on the messages route. Null if the body
   * names none, and an empty string if the field has the wrong type. It can be any text, so it may not be a valid
   * subject.
   */
  readonly user: string | null;
  /**
   * Set if the caller streams but didn't ask for usage. The gateway asks the vendor for it anyway, and drops the usage
   * events.
   */
  readonly hidesUsage?: true;
}

export interface ResponseSummary extends BillingReport {
  /** The usage that the vendor reported, or null if it didn't report any. */
  readonly tokens: Tokens | null;
  /** True if the token count is final. If it's false, the vendor may still report a higher count. */
  readonly isFinal: boolean;
  readonly turn: AssistantTurn;
  /**
   * The number of characters that the model has generated so far, in all choices and including reasoning. For JSON
   * responses on the chat and messages routes this is 0 if the token counts are final, because we don't need an
   * estimate then.
   */
  readonly generatedCharacters: number;
  /** Set if the vendor goes on generating in the background (`background: true` on the responses route). */
  readonly isPending?: true;
  /** True if every choice has a finish reason. Only set for chat and messages. */
  readonly finished?: boolean;
  /** The vendor's id of the response. Only set on the responses route. */
  readonly responseId?: string;
  /** The number of search units, which some rerank vendors charge by. */
  readonly searches?: number;
}

/**
 * Tells the relay what to make of an event.
 *
 * - `opening`: the response has started, but there's no content yet
 * - `delta`: a part of the content
 * - `end`: the last event of a complete response
 * - `error`: the vendor reports a failure (see `problem`)
 * - `usage`: an event with nothing but usage, which vendors send if we ask for it
 * - `ignored`: a keep-alive or another event without content
 * - `unreadable`: data that doesn't belong to this dialect
 */
export type StreamEventKind = 'opening' | 'delta' | 'end' | 'error' | 'usage' | 'ignored' | 'unreadable';

export interface StreamReader {
  read(event: SseEvent): StreamEventKind;
  summary(): ResponseSummary;
  /**
   * Returns true once the vendor has sent all output of this many choices. It may still have to send the usage and the
   * end of the stream.
   */
  hasAllOutput(choices: number): boolean;
  /** Returns true if the response is complete even without the event that closes a stream, which some vendors omit. */
  finished(): boolean;
  /**
   * Formats the event that tells the caller about a failure. Codecs only implement this if the event depends on earlier
   * ones, e.g. because events are numbered. Everywhere else we use `RouteCodec.formatStreamError`.
   */
  readonly formatFailure?: (message: string) => string;
  /** Returns what the vendor reported in an `error` event, or null if there wasn't any. */
  problem(): VendorErrorBody | null;
}

export interface RouteCodec {
  readonly route: TextRoute;
  /** The vendor's path for this route. It doesn't contain the version prefix, because that's part of the base URL. */
  readonly path: string;
  /**
   * Reads the fields that the gateway needs. Throws an error in the route's own wording if a required field is missing
   * or has the wrong type.
   */
  parseRequest(body: Buffer, spans: BodySpans): RequestSummary;
  /**
   * Returns the edits that turn the caller's body into a request to this vendor. They replace the model with the
   * vendor's id, and make the vendor report the usage of streams.
   */
  patchForVendor(body: Buffer, spans: BodySpans, vendorModel: string, stream: boolean): Splice[];
  /** Parses a JSON response. Returns null if it isn't a response of this route. */
  parseResponse(bytes: Buffer): ResponseSummary | null;
  createStreamReader(): StreamReader;
  /**
   * Formats the event that reports a failure during a stream. Returns null if the dialect doesn't have such an event,
   * and then we close the connection instead (docs/api/reference.md#streaming).
   */
  formatStreamError(message: string): string | null;
}
