/** What calls are charged by: counts of tokens and units, and their prices in whole nano-dollars (1e-9 USD). */

/** Five disjoint counts; their sum is the call's total of tokens. */
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
  /** The part of the input tokens that images are, for models with a price for them. */
  readonly imageTokens?: number;
}

/** What decides the cost of a call in addition to its tokens. */
export interface CallUnits extends Units {
  /** Search units of a rerank call. */
  readonly searches?: number;
  /** Tier in which the vendor processed the call, e.g. `priority`; several are joined by `+`. Absent for the standard tier. */
  readonly serviceTier?: string;
  /** Uses of tools that the vendor runs and bills by the use, by the tool's name. */
  readonly toolUses?: Readonly<Record<string, number>>;
  /** The vendor's own cost of the call, which we show next to ours. Nothing is charged by it. */
  readonly reportedCostNanos?: number;
}

/** Prices of a media model's units; null for units it is not charged by. */
export interface UnitPrices {
  readonly perImageNanos: bigint | null;
  readonly perMillionCharactersNanos: bigint | null;
  readonly perSecondNanos: bigint | null;
}

/** Nano-dollars per million tokens, so that every listed price is a whole number. */
export interface TokenPrice {
  readonly inputNanos: bigint;
  readonly outputNanos: bigint;
  readonly cachedInputNanos: bigint;
  readonly cacheWriteNanos: bigint;
  readonly cacheWrite1hNanos: bigint;
}

/** Prices of a model. */
export interface Price extends TokenPrice {
  /** Nano-dollars per search unit (rerank). */
  readonly perSearchNanos?: bigint;
  /** Price of input tokens of images, where it differs from that of text. */
  readonly imageInputNanos?: bigint;
  /** Prices of the whole call when its input has more than `tokens` tokens; in ascending order of `tokens`. */
  readonly above?: readonly { readonly tokens: number; readonly price: TokenPrice }[];
  /** Factors of the token prices in other service tiers, in millionths, by the tier's name. */
  readonly tierMillionths?: Readonly<Record<string, bigint>>;
  /** Nano-dollars per use of a tool that the vendor runs, by the tool's name. */
  readonly perToolUseNanos?: Readonly<Record<string, bigint>>;
}
