/** Records what the scripted vendors bill for each request. The gateway never reads this ledger. */
import type { TextRoute } from '../../src/core/call.ts';
import type { Tokens } from '../../src/core/pricing.ts';
import { noTokens } from '../../src/core/pricing.ts';
import type { VendorModel } from './models.ts';

export type BilledRoute = TextRoute | 'images';

/** The bill for one vendor request. It is mutable because it grows while the vendor generates. */
export interface Bill {
  /** Name of the call that the request belongs to. */
  readonly call: string;
  readonly route: BilledRoute;
  readonly model: VendorModel;
  tokens: Tokens;
  /** What the vendor bills for summarizing the prompt, in addition to `tokens`. */
  compaction: Tokens;
  /** Search units of a rerank request. */
  searches: number;
  /** How many web searches the vendor ran on its own. */
  webSearches: number;
  /** The `service_tier` that the vendor used. */
  tier: string;
  /** True if the vendor keeps generating after it has responded, as OpenAI does for `background: true`. */
  isBackground: boolean;
  /** True once the vendor has sent its token counts, which let the gateway charge the exact amount. */
  usageSent: boolean;
  /** How many output tokens were sent so far. Hidden reasoning is generated and billed but never sent. */
  sentTokens: number;
  /** Number of images in the prompt. */
  images: number;
  /**
   * When the vendor received the request, by `performance.now()`. The gateway holds the call's reservation at least
   * from here to `closedAt`.
   */
  readonly openedAt: number;
  /** When the vendor sent the last content, by `performance.now()`. Null until the whole response has been sent. */
  closedAt: number | null;
  /** Set if the vendor failed after it had generated output, so that the gateway has to try another vendor. */
  failure: string | null;
}

export interface Ledger {
  open(request: Pick<Bill, 'call' | 'route' | 'model'>): Bill;
  /** Returns all bills for a call, in the order of its requests. */
  of(call: string): readonly Bill[];
  /** Returns the names of all billed calls that start with `prefix`. */
  calls(prefix: string): readonly string[];
  /** Deletes the bills of all calls whose names start with `prefix`. */
  forget(prefix: string): void;
}

export function createLedger(): Ledger {
  const bills = new Map<string, Bill[]>();
  return {
    open({ call, route, model }) {
      const bill: Bill = {
        call,
        route,
        model,
        tokens: noTokens,
        compaction: noTokens,
        searches: 0,
        webSearches: 0,
        tier: 'default',
        isBackground: false,
        usageSent: false,
        sentTokens: 0,
        images: 0,
        openedAt: performance.now(),
        closedAt: null,
        failure: null,
      };
      bills.set(call, [...(bills.get(call) ?? []), bill]);
      return bill;
    },
    of: (call) => bills.get(call) ?? [],
    calls: (prefix) => [...bills.keys()].filter((call) => call.startsWith(prefix)),
    forget(prefix) {
      for (const call of bills.keys()) if (call.startsWith(prefix)) bills.delete(call);
    },
  };
}

/** Computes the amount of a bill in nano-dollars. It doesn't use the product's arithmetic, so that it can check it. */
export function nanosOf(bill: Bill): number {
  const { model, searches, webSearches, tier } = bill;
  const { prices, tierFactors } = model;
  const tokens = billedTokens(bill);
  // Multiplying USD per million tokens by 1,000 gives nano-dollars per token.
  const perTokens =
    tokens.input * prices.input +
    tokens.cachedInput * prices.cachedInput +
    tokens.cacheWrite * prices.cacheWrite +
    tokens.cacheWrite1h * prices.cacheWrite1h +
    tokens.output * prices.output;
  return Math.round(perTokens * 1_000 * (tierFactors[tier] ?? 1) + (searches * prices.perSearch + webSearches * prices.perWebSearch) * 1e9);
}

export function billedTokens({ tokens, compaction }: Pick<Bill, 'tokens' | 'compaction'>): Tokens {
  return {
    input: tokens.input + compaction.input,
    cachedInput: tokens.cachedInput + compaction.cachedInput,
    cacheWrite: tokens.cacheWrite + compaction.cacheWrite,
    cacheWrite1h: tokens.cacheWrite1h + compaction.cacheWrite1h,
    output: tokens.output + compaction.output,
  };
}

export function totalTokens({ input, cachedInput, cacheWrite, cacheWrite1h, output }: Tokens): number {
  return input + cachedInput + cacheWrite + cacheWrite1h + output;
}
