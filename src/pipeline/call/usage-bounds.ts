/** Upper bounds of a call's cost and tokens, to be reserved before it is sent. The recorded usage is always the actual one. */
import type { Call } from '../../core/call.ts';
import type { Candidate } from '../../core/candidate.ts';
import { clampToSafeInteger, tokenCost } from '../../core/cost.ts';
import type { Price, Tokens } from '../../core/pricing.ts';
import { noTokens } from '../../core/pricing.ts';
import { parsePositiveInteger } from '../../dialects/json/body-members.ts';
import { type InputSize, measureInput } from '../../dialects/routes/input-size.ts';
import { estimateSearches } from './estimate.ts';

/** Vendors scale images down to about 1,600 tokens. */
const maxTokensPerImage = 2_000;
/** Characters of base64 per token of audio, at least: speech at 6 kbit/s, of which Google counts 32 tokens per second. */
const minCharactersPerAudioToken = 30;
/** Reserved when the caller sets no limit and the catalog has no smaller one: a model's maximum would deny calls that use little of it. */
const defaultOutputTokens = 4_096;
/** As bytes, because they are found faster than a text. */
const cacheMark = Buffer.from('"cache_control"');
/** Rerank vendors split documents into chunks of about 500 tokens and bill a hundred chunks as one search. */
const bytesPerSearch = 50_000;

export function usageBounds(call: Call, candidates: readonly Candidate[]): { costNanos: number; tokens: number } {
  const size = measureInput(call.body);
  let costNanos = 0;
  let tokens = size.textBytes;
  for (const candidate of candidates) {
    const input = maxInputTokensFor(size, candidate);
    const output = maxOutputTokensFor(call, candidate);
    tokens = Math.max(tokens, input + output);
    if (candidate.price) costNanos = Math.max(costNanos, costBound(call, candidate.price, input, output));
  }
  return { costNanos: clampToSafeInteger(costNanos), tokens: clampToSafeInteger(tokens) };
}

/** A token has at least one byte. How many a document has is unknown, but a vendor refuses more than the model's window. */
function maxInputTokensFor(
  { textBytes, images, audioBytes, documentBytes }: InputSize,
  { maxInputTokens, contextWindow }: Candidate,
): number {
  const media = images * maxTokensPerImage + Math.ceil(audioBytes / minCharactersPerAudioToken);
  return textBytes + media + Math.min(documentBytes, maxInputTokens ?? contextWindow ?? documentBytes);
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
  const isSearched = route === 'rerank' && price.perSearchNanos !== undefined;
  const searches = isSearched ? Math.max(estimateSearches(call), 1 + Math.floor(body.length / bytesPerSearch)) : 0;
  const units = { searches };
  const uncached = tokenCost({ input, cachedInput: 0, cacheWrite: 0, cacheWrite1h: 0, output }, price, units);
  if (!body.includes(cacheMark)) return uncached;
  const costOf = (written: Partial<Tokens>): number => tokenCost({ ...noTokens, ...written, output }, price, units);
  return Math.max(uncached, costOf({ cacheWrite: input }), costOf({ cacheWrite1h: input }));
}
