/** The tokens and units by which calls are charged, and their prices in whole nano-dollars (1e-9 USD). */

/** The five counts are disjoint, so their sum is the total number of tokens of the call. */
export interface Tokens {
  readonly input: number;
  readonly cachedInput: number;
  readonly cacheWrite: number;
  readonly cacheWrite1h: number;
  readonly output: number;
}

export const noTokens: Tokens = { input: 0, cachedInput: 0, cacheWrite: 0, cacheWrite1h: 0, output: 0 };

/** What a media call creates or reads. Characters are Unicode code points. */
export interface Units {
  readonly images?: number;
  readonly characters?: number;
  readonly seconds?: number;
  /** How many of the input tokens are images, for models that charge a separate price for them. */
  readonly imageTokens?: number;
}

/** Everything besides tokens that determines the cost of a call. */
export interface CallUnits extends Units {
  /** The search units of a rerank call. */
  readonly searches?: number;
  /**
   * The tier in which the vendor processed the call, e.g. `priority`. Several tiers are joined with `+`. Absent for
   * the standard tier.
   */
  readonly serviceTier?: string;
  /** How often the call used each tool that the vendor runs and bills per use, by tool name. */
  readonly toolUses?: Readonly<Record<string, number>>;
  /** The cost that the vendor reports. We only show it next to our own cost and never charge it. */
  readonly reportedCostNanos?: number;
}

/** The prices of a media model's units. Null for units that it doesn't charge for. */
export interface UnitPrices {
  readonly perImageNanos: bigint | null;
  readonly perMillionCharactersNanos: bigint | null;
  readonly perSecondNanos: bigint | null;
}

/** Nano-dollars per million tokens, so that every list price is a whole number. */
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
  /** The price of input tokens of images, if it's different from the price of text. */
  readonly imageInputNanos?: bigint;
  /** Prices that apply to the whole call if its input has more than `tokens` tokens, in ascending order of `tokens`. */
  readonly above?: readonly { readonly tokens: number; readonly price: TokenPrice }[];
  /** The factors that multiply the token prices in other service tiers, in millionths, by tier name. */
  readonly tierMillionths?: Readonly<Record<string, bigint>>;
  /** Nano-dollars per use of each tool that the vendor runs, by tool name. */
  readonly perToolUseNanos?: Readonly<Record<string, bigint>>;
}
