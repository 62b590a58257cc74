/** Estimates usage from what was sent, where the vendor reported none. */
import type { Call, Outcome } from '../../core/call.ts';
import { tokenCost } from '../../core/cost.ts';
import { asArray, asObject, parseJson } from '../../core/json/narrow.ts';
import type { Price, Tokens } from '../../core/pricing.ts';
import { noTokens } from '../../core/pricing.ts';
import { estimateDocumentTokens, estimateTokens, tokensPerImage } from '../../dialects/contract/token-usage.ts';
import { measureInput } from '../../dialects/routes/input-size.ts';

/** Characters of base64 per token of audio: compressed speech at 64 kbit/s, of which vendors count 10 tokens per second. */
const charactersPerAudioToken = 1_000;

/** Estimates the input tokens of a body. */
export function estimateInput(body: Buffer): number {
  const { textBytes, images, audioBytes, documentBytes } = measureInput(body);
  const documents = documentBytes === 0 ? 0 : estimateDocumentTokens(documentBytes);
  return estimateTokens(textBytes) + images * tokensPerImage + Math.ceil(audioBytes / charactersPerAudioToken) + documents;
}

/** Estimates an attempt whose end is unknown. Cost null when the price is unknown. */
export function estimateRequest(call: Call, price: Price | null): { readonly tokens: Tokens; readonly costNanos: number | null } {
  const tokens = { ...noTokens, input: estimateInput(call.body) };
  return {
    tokens,
    costNanos: price === null ? null : tokenCost(tokens, price, isChargedBySearch(call, price) ? { searches: estimateSearches(call) } : {}),
  };
}

/** Reports whether the attempt ended before its response, by a deadline, its caller or a shutdown: the vendor may finish and bill it, so it is charged. */
export function isCutOff(outcome: Outcome): boolean {
  return outcome === 'unknown' || outcome === 'client_left' || outcome === 'deadline';
}

/** Reports whether a model charges by the search only: without a search count its calls would be free. */
export function isChargedBySearch({ route }: Call, { perSearchNanos, inputNanos }: Price): boolean {
  return route === 'rerank' && perSearchNanos !== undefined && inputNanos === 0n;
}

/** Returns the searches of a rerank call: vendors bill a hundred documents as one search. */
export function estimateSearches({ body }: Call): number {
  const { documents } = asObject(parseJson(body.toString('utf8')));
  return Math.max(1, Math.ceil(asArray(documents).length / 100));
}
