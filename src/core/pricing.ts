/** What calls are charged by: tokens and units, counted, and their prices in whole nano-dollars (1e-9 USD). */

/** Five disjoint counters; their sum is all tokens of the call. */
export interface Tokens {
  readonly input: number;
  readonly cachedInput: number;
  readonly cacheWrite: number;
  readonly cacheWrite1h: number;
  readonly output: number;
}

export const noTokens: Tokens = { input: 0, cachedInput: 0, cacheWrite: 0, cacheWrite1h: 0, output: 0 };

/** What a media call makes or reads, counted; characters are Unicode code points. */
export interface Units {
  readonly images?: number;
  readonly characters?: number;
  readonly seconds?: number;
}

/** What a call was counted by beside its tokens. */
export interface CallUnits extends Units {
  /** Search units of a rerank call. */
  readonly searches?: number;
}

/** What one unit of a media model costs, characters by the million; null: it is not charged so. */
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

/** What a model costs. */
export interface Price extends TokenPrice {
  /** Nano-dollars of one search unit (rerank). */
  readonly perSearchNanos?: bigint;
  /** Prices of the whole call when its input has more than `tokens` tokens; the smallest bound first. */
  readonly above?: readonly { readonly tokens: number; readonly price: TokenPrice }[];
}
