/** What the scripted vendors bill, request by request. The gateway never reads it. */
import type { TextRoute } from '../../src/core/call.ts';
import type { Tokens } from '../../src/core/pricing.ts';
import { noTokens } from '../../src/core/pricing.ts';
import type { VendorModel } from './models.ts';

export type BilledRoute = TextRoute | 'images';

/** One request to a vendor. It is mutable, because a bill grows while the vendor generates. */
export interface Bill {
  /** The name of the call that the request belongs to. */
  readonly call: string;
  readonly route: BilledRoute;
  readonly model: VendorModel;
  tokens: Tokens;
  /** Units of a rerank request. */
  searches: number;
  /** Web searches that the vendor ran by itself. */
  webSearches: number;
  /** The `service_tier` that the vendor used. */
  tier: string;
  /** The vendor goes on generating after its response, as OpenAI does for `background: true`. */
  isBackground: boolean;
  /** Whether the vendor has sent its token counts, so that a careful reader can know the bill exactly. */
  usageSent: boolean;
  /** Tokens of the text that was sent so far, which is less than what was generated if the model reasons in secret. */
  sentTokens: number;
  /** Images in the prompt. */
  images: number;
  /**
   * When the vendor received the request, and when it sent the last content of a response that was sent to its end, by `performance.now()`. The
   * gateway has reserved the call's budget for at least that long.
   */
  readonly openedAt: number;
  closedAt: number | null;
  /** The vendor failed after it had generated, so the gateway has to try another one. */
  failure: string | null;
}

export interface Ledger {
  open(request: Pick<Bill, 'call' | 'route' | 'model'>): Bill;
  /** Returns all bills of a call in the order of the requests. */
  of(call: string): readonly Bill[];
  /** Returns the calls of which a vendor has seen a request, if their names start like this. */
  calls(prefix: string): readonly string[];
  /** Forgets the bills of calls whose names start like this. */
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

/** Returns the price of a bill in nano-dollars. It is computed independently of the product's own arithmetic. */
export function nanosOf({ model, tokens, searches, webSearches, tier }: Bill): number {
  const { prices, tierFactors } = model;
  // A USD price per million tokens, times a thousand, is nano-dollars per token.
  const perTokens =
    tokens.input * prices.input +
    tokens.cachedInput * prices.cachedInput +
    tokens.cacheWrite * prices.cacheWrite +
    tokens.cacheWrite1h * prices.cacheWrite1h +
    tokens.output * prices.output;
  return Math.round(perTokens * 1_000 * (tierFactors[tier] ?? 1) + (searches * prices.perSearch + webSearches * prices.perWebSearch) * 1e9);
}

export function totalTokens({ input, cachedInput, cacheWrite, cacheWrite1h, output }: Tokens): number {
  return input + cachedInput + cacheWrite + cacheWrite1h + output;
}
