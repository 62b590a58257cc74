/** Candidates: models at providers that may serve a call, and what they accept. */
import type { Dialect } from './call.ts';
import type { Price, UnitPrices } from './pricing.ts';
import type { TakeableField } from './takeable-fields.ts';

interface CandidateModel {
  /** `<provider>/<model>`. */
  readonly id: string;
  readonly provider: string;
  /** The vendor's model id, or its voice. */
  readonly model: string;
  /** Token price, which applies when no unit of the call has a price; null when unknown. */
  readonly price: Price | null;
}

/** The one model that serves a media call. */
export interface MediaCandidate extends CandidateModel {
  readonly unitPrices: UnitPrices;
  /** The most tokens that an image of up to 1024x1536 can have. Null if we don't know. */
  readonly imageTokens?: number | null;
  /** Optional request fields that the model accepts; null when unknown. */
  readonly takes: readonly TakeableField[] | null;
}

/** Capabilities of a model that the translation between dialects depends on. */
export interface ModelTraits {
  /** Messages dialect: supports `output_config.format` and strict tools. Default: false. */
  readonly supportsSchema?: boolean;
  /** Messages dialect: the form of `thinking` that it accepts. Default: `budget`. */
  readonly thinking?: 'budget' | 'adaptive' | 'none';
  /** Chat dialect: accepts `reasoning_effort`. Default: true. */
  readonly reasons?: boolean;
  /**
   * Chat dialect: the form in which it takes reasoning of earlier turns. `text` is `reasoning_content`, `details` is `reasoning_details`.
   * Default: `none`, since many vendors refuse a message with an unknown member.
   */
  readonly takesReasoning?: 'none' | 'text' | 'details';
}

/**
 * How a model's vendor serves calls of responses: on that route; with the request translated to its dialect; or `unknown`, when the route is
 * tried first.
 */
export type ResponsesSupport = 'native' | 'translated' | 'unknown';

export interface Candidate extends CandidateModel {
  /** Dialect of the vendor. */
  readonly dialect: Dialect;
  /** Default: native. */
  readonly responses?: ResponsesSupport;
  readonly maxOutputTokens: number | null;
  /** Tokens of input that the model accepts; null when unknown. */
  readonly maxInputTokens?: number | null;
  /** Tokens of input and requested output together, where the vendor checks their sum; null when it does not, or unknown. */
  readonly contextWindow?: number | null;
  /** Longest wait for the first content of a response. Null: as the provider. */
  readonly firstContentTimeoutMs?: number | null;
  /** The most input tokens that the vendor charges for one image. Null if we don't know. */
  readonly imageTokens?: number | null;
  readonly traits?: ModelTraits;
}
