/** The most that a call may cost, and the most tokens it may use, before it is made (decisions 6). What it really uses is always recorded. */
import type { Call, Candidate } from '../../core/call.ts';
import { tokenCost } from '../../core/cost.ts';
import type { Price, Tokens } from '../../core/pricing.ts';
import { noTokens } from '../../core/pricing.ts';
import { parsePositiveInteger } from '../../dialects/json/body-members.ts';
import { countImageParts } from '../../dialects/routes/request-features.ts';
import { estimateSearches } from './estimate.ts';

/** Of an image whose bytes are not in the body; one whose bytes are is counted by these already. */
const tokensPerImage = 2_000;
/** Where the caller sets no bound and the catalog no smaller one. */
const defaultOutputTokens = 4_096;
/** Rerank vendors cut documents at about 500 tokens, and bill a hundred pieces as one search. */
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

/** All of the input at the dearest of its prices; writing to a cache is dearer than reading, and done only for those who ask for it. */
function costBound(call: Call, price: Price, input: number, output: number): number {
  const { route, body } = call;
  const kinds: Tokens[] = [{ ...noTokens, input, output }];
  if (body.includes('"cache_control"')) {
    kinds.push({ ...noTokens, cacheWrite: input, output }, { ...noTokens, cacheWrite1h: input, output });
  }
  const isSearched = route === 'rerank' && price.perSearchNanos !== undefined;
  const searches = isSearched ? Math.max(estimateSearches(call), 1 + Math.floor(body.length / bytesPerSearch)) : 0;
  return Math.max(...kinds.map((tokens) => tokenCost(tokens, price, searches)));
}

/** Callers may ask for any number of tokens; the database counts no further. */
function clampToSafeInteger(amount: number): number {
  return Math.min(amount, Number.MAX_SAFE_INTEGER);
}
