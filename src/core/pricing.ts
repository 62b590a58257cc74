/** The tokens and units that we charge for, and their prices in whole nano-dollars (1e-9 USD). */

/** No token is included in more than one of these counts, so their sum is the total number of tokens. */
export interface Tokens {
  readonly input: number;
  readonly cachedInput: number;
  readonly cacheWrite: number;
  readonly cacheWrite1h: number;
  readonly output: number;
}

export const noTokens: Tokens = { input: 0, cachedInput: 0, cacheWrite: 0, cacheWrite1h: 0, output: 0 };

/** What a media call produces or consumes. Characters are Unicode code points. */
export interface Units {
  readonly images?: number;
  readonly characters?: number;
  readonly seconds?: number;
  /** How many of the input tokens come from images, because some models have a different price for these. */
  readonly imageTokens?: number;
}

/** Everything that the cost of a call depends on besides its tokens. */
export interface CallUnits extends Units {
  /** The number of search units that a rerank call used. */
  readonly searches?: number;
  /**
   * The service tier in which the vendor processed the call, e.g. `priority`, or several tiers joined with `+`. Absent
   * for the standard tier.
   */
  readonly serviceTier?: string;
  /** How often the call used each tool that the vendor runs and bills per use, by tool name. */
  readonly toolUses?: Readonly<Record<string, number>>;
  /**
   * The cost of the call according to the vendor. We show it next to the cost that we've computed, but we don't charge
   * it.
   */
  readonly reportedCostNanos?: number;
}

/** The prices of a media model. If the model doesn't charge for a unit, its price is null. */
export interface UnitPrices {
  readonly perImageNanos: bigint | null;
  readonly perMillionCharactersNanos: bigint | null;
  readonly perSecondNanos: bigint | null;
}

/** Nano-dollars per million tokens. In this unit, all list prices are whole numbers. */
export interface TokenPrice {
  readonly inputNanos: bigint;
  readonly outputNanos: bigint;
  readonly cachedInputNanos: bigint;
  readonly cacheWriteNanos: bigint;
  readonly cacheWrite1hNanos: bigint;
}

export interface Price extends TokenPrice {
  /** Nano-dollars per search unit (rerank). */
  readonly perSearchNanos?: bigint;
  /** The price of image tokens in the input, if it differs from the price of text. */
  readonly imageInputNanos?: bigint;
  /**
   * Prices for long inputs, sorted by `tokens` in ascending order. If the input has more than `tokens` tokens, `price`
   * applies to the whole call.
   */
  readonly above?: readonly { readonly tokens: number; readonly price: TokenPrice }[];
  /** The factor by which each service tier multiplies the token prices, in millionths. */
  readonly tierMillionths?: Readonly<Record<string, bigint>>;
  /** The price of each use of a tool that the vendor runs, by tool name, in nano-dollars. */
  readonly perToolUseNanos?: Readonly<Record<string, bigint>>;
}
