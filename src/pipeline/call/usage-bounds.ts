/** Upper bounds of a call's cost and tokens, to be reserved before it is sent. The recorded usage is always the actual one. */
import type { Call, Candidate } from '../../core/call.ts';
import { clampToSafeInteger, tokenCost } from '../../core/cost.ts';
import type { Price, Tokens } from '../../core/pricing.ts';
import { noTokens } from '../../core/pricing.ts';
import { parsePositiveInteger } from '../../dialects/json/body-members.ts';
import { countImageParts } from '../../dialects/routes/request-features.ts';
import { estimateSearches } from './estimate.ts';

/** Tokens of an image that is referenced by URL; the bytes of an inline image are counted as part of the body. */
const tokensPerImage = 2_000;
/** Reserved when the caller sets no limit and the catalog has no smaller one: a model's maximum would deny calls that use little of it. */
const defaultOutputTokens = 4_096;
/** Rerank vendors split documents into chunks of about 500 tokens and bill a hundred chunks as one search. */
const bytesPerSearch = 50_000;

export function usageBounds(call: Call, candidates: readonly Candidate[]): { costNanos: number; tokens: number } {
  // A token has at least one byte.
  const input = call.body.length + countImageParts(call.body) * tokensPerImage;
  const outputs = candidates.map((candidate) => maxOutputTokensFor(call, candidate));
  const costs = candidates.map(({ price }, index) => (price ? costBound(call, price, input, outputs[index] ?? 0) : 0));
  return { costNanos: clampToSafeInteger(Math.max(0, ...costs)), tokens: clampToSafeInteger(input + Math.max(0, ...outputs)) };
}

function maxOutputTokensFor({ route, body, spans, maxOutputTokens }: Call, candidate: Candidate): number {
  switch (route) {
    case 'chat':
    case 'messages':
    case 'responses': {
      const each = maxOutputTokens ?? Math.min(candidate.maxOutputTokens ?? defaultOutputTokens, defaultOutputTokens);
      return clampToSafeInteger((parsePositiveInteger(body, spans.members.get('n')) ?? 1) * each);
    }
    case 'embeddings':
    case 'moderations':
    case 'rerank':
      return 0;
  }
}

/** Prices all input at the highest applicable rate: cache writes are the most expensive, and made only on request. */
function costBound(call: Call, price: Price, input: number, output: number): number {
  const { route, body } = call;
  const kinds: Tokens[] = [{ ...noTokens, input, output }];
  if (body.includes('"cache_control"')) {
    kinds.push({ ...noTokens, cacheWrite: input, output }, { ...noTokens, cacheWrite1h: input, output });
  }
  const isSearched = route === 'rerank' && price.perSearchNanos !== undefined;
  const searches = isSearched ? Math.max(estimateSearches(call), 1 + Math.floor(body.length / bytesPerSearch)) : 0;
  return Math.max(...kinds.map((tokens) => tokenCost(tokens, price, { searches })));
}
