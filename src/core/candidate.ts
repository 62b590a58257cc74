/**
 * A candidate is a model at a provider that could serve a call. These types also describe which requests a model
 * accepts.
 */
import type { Dialect, Route } from './call.ts';
import type { Price, UnitPrices } from './pricing.ts';
import type { SupportedParam } from './supported-params.ts';

interface CandidateModel {
  /** `<provider>/<model>`, as in the catalog. */
  readonly id: string;
  readonly provider: string;
  /** The vendor's id for the model. For speech this can be the name of the voice. */
  readonly model: string;
  /**
   * The price per token, or null if it's unknown. We ignore it if any of the call's units (images, characters, seconds)
   * has a price.
   */
  readonly price: Price | null;
  /** The member to call, if the provider has a pool. */
  readonly member?: PoolMember;
}

/** One of the keys, deployments or regions of a provider. */
export interface PoolMember {
  readonly name: string;
  /**
   * `<provider>/<name>`. Connections and circuit breakers are looked up by this key, because each member has its own.
   */
  readonly key: string;
  /** Members of one account share its rate limit and prompt cache. */
  readonly account: string;
  /** The keys of all members in the account. They cool down together. */
  readonly accountKeys: readonly string[];
}

/** Returns the key of the connection and circuit breaker that a candidate uses. */
export function connectionKey({ provider, member }: Pick<CandidateModel, 'provider' | 'member'>): string {
  return member?.key ?? provider;
}

export interface MediaCandidate extends CandidateModel {
  readonly unitPrices: UnitPrices;
  /** The most tokens that the vendor counts for an image of up to 1024x1536. Null if we don't know. */
  readonly imageTokens?: number | null;
  /** The optional request fields that the model accepts, or null if we don't know them. */
  readonly takes: readonly SupportedParam[] | null;
}

/** Capabilities of a model that matter when we translate between dialects. */
export interface ModelTraits {
  /** Messages dialect only. True if the model supports `output_config.format` and strict tools. Defaults to false. */
  readonly supportsSchema?: boolean;
  /** How to request thinking in the messages dialect. Defaults to `budget`. */
  readonly thinking?: 'budget' | 'adaptive' | 'none';
  /** Chat dialect only. True if the model accepts `reasoning_effort`, which is the default. */
  readonly reasons?: boolean;
  /**
   * Chat dialect only. How the model accepts the reasoning of earlier turns: in `reasoning_content` (`text`) or in
   * `reasoning_details` (`details`). Defaults to `none`, because many vendors reject messages with unknown fields.
   */
  readonly takesReasoning?: 'none' | 'text' | 'details';
}

/**
 * How the model's vendor serves calls to `/v1/responses`. The vendor either has that route (`native`), or we translate
 * requests to the vendor's dialect (`translated`). If we don't know (`unknown`), we try the route first.
 */
export type ResponsesSupport = 'native' | 'translated' | 'unknown';

/** The limits of a model. Null if unknown. */
export interface ModelLimits {
  readonly maxOutputTokens: number | null;
  readonly maxInputTokens: number | null;
  /**
   * Some vendors limit the sum of the input and the requested output. Null if this vendor doesn't, or if we don't know.
   */
  readonly contextWindow: number | null;
  /** How long to wait for the first content of a response. If this is null, the provider's setting applies. */
  readonly firstContentTimeoutMs: number | null;
  /** The most input tokens that the vendor counts for one image. Null if we don't know. */
  readonly imageTokens: number | null;
}

/** The entry of a model in the catalog, without its prices. */
export interface ModelProperties extends ModelLimits {
  readonly traits: ModelTraits;
  /** The routes on which a chat model can be used. If this is null, it can be used on all routes of its provider. */
  readonly serves: readonly Route[] | null;
  /** The optional request fields that the model accepts, for images and speech. Null if we don't know. */
  readonly takes: readonly SupportedParam[] | null;
}

export interface Candidate extends CandidateModel, Partial<ModelLimits> {
  readonly dialect: Dialect;
  /** Defaults to native. */
  readonly responses?: ResponsesSupport;
  readonly maxOutputTokens: number | null;
  readonly traits?: ModelTraits;
}
