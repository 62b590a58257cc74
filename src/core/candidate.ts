/**
 * A candidate is a model of a certain provider that could serve a call. These types also describe which requests the
 * model accepts.
 */
import type { Dialect, Route } from './call.ts';
import type { Price, UnitPrices } from './pricing.ts';
import type { SupportedParam } from './supported-params.ts';

interface CandidateModel {
  readonly id: string;
  readonly provider: string;
  /** The vendor's name for the model. For speech, this can be the name of a voice. */
  readonly model: string;
  /**
   * The price per token, or null if it's unknown. If the call's units (images, characters, seconds) have a price, we
   * charge that instead.
   */
  readonly price: Price | null;
  readonly member?: PoolMember;
}

/** One of a provider's API keys, deployments or regions, among which a pool distributes calls. */
export interface PoolMember {
  readonly name: string;
  /**
   * `<provider>/<name>`. Connections and circuit breakers are looked up by this key, because each member has its own.
   */
  readonly key: string;
  /** The vendor's account. Pool members with the same account share a rate limit and a prompt cache. */
  readonly account: string;
  /** The keys of all pool members with the same account. When one of them is rate-limited, they all cool down. */
  readonly accountKeys: readonly string[];
}

/** Returns the key of a candidate's connection and circuit breaker. Each pool member has its own. */
export function connectionKey({ provider, member }: Pick<CandidateModel, 'provider' | 'member'>): string {
  return member?.key ?? provider;
}

export interface MediaCandidate extends CandidateModel {
  readonly unitPrices: UnitPrices;
  /**
   * An upper bound for the tokens that the vendor counts for an image of up to 1024x1536. Null if we don't know one.
   */
  readonly imageTokens?: number | null;
  /** The optional request fields that the model accepts, or null if that's unknown. */
  readonly takes: readonly SupportedParam[] | null;
}

export interface ModelTraits {
  /** Messages dialect only. True if the model supports `output_config.format` and strict tools. Defaults to false. */
  readonly supportsSchema?: boolean;
  /** How to request thinking in the messages dialect. Defaults to `budget`. */
  readonly thinking?: 'budget' | 'adaptive' | 'none';
  /** For the chat dialect. True if the model accepts `reasoning_effort`. Defaults to true. */
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

/** The limits of a model, e.g. the size of its context window. A limit is null if the catalog doesn't contain it. */
export interface ModelLimits {
  readonly maxOutputTokens: number | null;
  readonly maxInputTokens: number | null;
  /**
   * The maximum number of input tokens plus requested output tokens. Null if the vendor has no such limit, or if we
   * don't know it.
   */
  readonly contextWindow: number | null;
  /** How long to wait for the first content of a response. If this is null, the provider's setting applies. */
  readonly firstContentTimeoutMs: number | null;
  /** An upper bound for the input tokens of one image. Null if we don't know one. */
  readonly imageTokens: number | null;
}

export interface ModelProperties extends ModelLimits {
  readonly traits: ModelTraits;
  /** The routes that the model can serve. Null if that's every route of its provider. */
  readonly serves: readonly Route[] | null;
  /** The optional request fields that an image or speech model accepts, or null if that's unknown. */
  readonly takes: readonly SupportedParam[] | null;
}

export interface Candidate extends CandidateModel, Partial<ModelLimits> {
  readonly dialect: Dialect;
  /**
   * How the vendor serves calls to `/v1/responses`. If this isn't set, we assume that the vendor has the route itself.
   */
  readonly responses?: ResponsesSupport;
  readonly maxOutputTokens: number | null;
  readonly traits?: ModelTraits;
}
