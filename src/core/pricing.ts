/** The tokens and units that we charge for, and their prices in whole nano-dollars (1e-9 USD). */

/** Each token is only included in one of these counts, so the sum is the total. */
export interface Tokens {
  readonly input: number;
  readonly cachedInput: number;
  readonly cacheWrite: number;
  readonly cacheWrite1h: number;
  readonly output: number;
}

export const noTokens: Tokens = { input: 0, cachedInput: 0, cacheWrite: 0, cacheWrite1h: 0, output: 0 };

/** The units of a media call, i.e. what it produces or consumes. Characters are Unicode code points. */
export interface Units {
  readonly images?: number;
  readonly characters?: number;
  readonly seconds?: number;
  /** How many of the input tokens represent images, which have a price of their own for some models. */
  readonly imageTokens?: number;
}

export interface CallUnits extends Units {
  /** The search units of a rerank call. */
  readonly searches?: number;
  /**
   * The service tier in which the vendor processed the call, e.g. `priority`, or several tiers joined with `+`. Absent
   * for the standard tier.
   */
  readonly serviceTier?: string;
  /** How often the model used tools that the vendor runs and bills per use, by tool name. */
  readonly toolUses?: Readonly<Record<string, number>>;
  /**
   * The cost of the call according to the vendor. We show it next to the cost that we've computed, but we don't charge
   * it.
   */
  readonly reportedCostNanos?: number;
}

/** Prices of a media model. A price is null if the model doesn't charge for that unit. */
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
  /** Nano-dollars per use of a tool that the vendor runs, by tool name. */
  readonly perToolUseNanos?: Readonly<Record<string, bigint>>;
}
