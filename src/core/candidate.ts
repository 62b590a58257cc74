/** Candidates are models at providers that may serve a call. These types also describe what they accept. */
import type { Dialect } from './call.ts';
import type { Price, UnitPrices } from './pricing.ts';
import type { SupportedParam } from './supported-params.ts';

interface CandidateModel {
  /** The catalog id, `<provider>/<model>`. */
  readonly id: string;
  readonly provider: string;
  /** The vendor's id of the model or voice. */
  readonly model: string;
  /** The price of tokens, which applies if no unit of the call has a price. Null if unknown. */
  readonly price: Price | null;
  /** The member of the provider's pool that we call. Absent if the provider has no pool. */
  readonly member?: PoolMember;
}

/** One of the keys, deployments or regions of a provider. */
export interface PoolMember {
  readonly name: string;
  /** `<provider>/<name>`, which identifies the connection and the circuit breaker of the member. */
  readonly key: string;
  /** Members of the same account have the same rate limit and prompt cache. */
  readonly account: string;
  /** The keys of all members of the account. */
  readonly accountKeys: readonly string[];
}

/** Returns the name of the connection and of the circuit breaker that a candidate uses. */
export function connectionKey({ provider, member }: Pick<CandidateModel, 'provider' | 'member'>): string {
  return member?.key ?? provider;
}

export interface MediaCandidate extends CandidateModel {
  readonly unitPrices: UnitPrices;
  /** The most tokens that an image of up to 1024x1536 can have. Null if we don't know. */
  readonly imageTokens?: number | null;
  /** The optional request fields that the model accepts. Null if unknown. */
  readonly takes: readonly SupportedParam[] | null;
}

/** Capabilities of a model that matter when we translate between dialects. */
export interface ModelTraits {
  /** Messages dialect only. Whether the model supports `output_config.format` and strict tools. Defaults to false. */
  readonly supportsSchema?: boolean;
  /** Messages dialect only. The form of `thinking` that the model accepts. Defaults to `budget`. */
  readonly thinking?: 'budget' | 'adaptive' | 'none';
  /** Chat dialect only. Whether the model accepts `reasoning_effort`. Defaults to true. */
  readonly reasons?: boolean;
  /**
   * Chat dialect only. The form in which the model accepts the reasoning of earlier turns. `text` is
   * `reasoning_content`, and `details` is `reasoning_details`. Defaults to `none`, because many vendors refuse a
   * message with an unknown member.
   */
  readonly takesReasoning?: 'none' | 'text' | 'details';
}

/**
 * How a model's vendor serves calls to `/v1/responses`. It either has that route (`native`), or we translate the
 * request to its dialect (`translated`). If this is `unknown`, we try the route first.
 */
export type ResponsesSupport = 'native' | 'translated' | 'unknown';

export interface Candidate extends CandidateModel {
  readonly dialect: Dialect;
  /** Defaults to native. */
  readonly responses?: ResponsesSupport;
  readonly maxOutputTokens: number | null;
  /** The number of input tokens that the model accepts. Null if unknown. */
  readonly maxInputTokens?: number | null;
  /**
   * The limit of the input and the requested output together, in tokens, if the vendor checks their sum. Null if it
   * doesn't or if we don't know.
   */
  readonly contextWindow?: number | null;
  /** The longest wait for the first content of a response. Null to use the provider's setting. */
  readonly firstContentTimeoutMs?: number | null;
  /** The most input tokens that the vendor charges for one image. Null if we don't know. */
  readonly imageTokens?: number | null;
  readonly traits?: ModelTraits;
}
