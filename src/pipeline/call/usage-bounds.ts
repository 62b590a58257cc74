/**
 * Computes what a call reserves before it is sent: an upper bound of its cost, and an estimate of its tokens. We
 * always record the actual usage. See docs/architecture/ceilings.md#upper-bounds.
 */

import type { UsageBounds } from '../../ceilings/reservation.ts';
import { type Call, isPromptRoute } from '../../core/call.ts';
import type { Candidate } from '../../core/candidate.ts';
import { clampToSafeInteger, tokenCost } from '../../core/cost.ts';
import type { CallUnits, Price, Tokens } from '../../core/pricing.ts';
import { noTokens } from '../../core/pricing.ts';
import type { InputSize } from '../../dialects/json/body-facts.ts';
import { hidesAscii, parseLenientCount, parsePositiveInteger, parseStringMember } from '../../dialects/json/body-members.ts';
import { measureInput } from '../../dialects/routes/input-size.ts';
import { mentionsCacheControl, refersElsewhere } from '../../dialects/routes/outside-input.ts';
import { inputWindowOf } from '../../failover/context-window.ts';
import { estimateSearches } from './estimate.ts';
import { requestedTiers, requestedTools } from './extra-charges.ts';
import { defaultEstimate, type UsageEstimate, type UsageEstimates } from './usage-estimates.ts';

/** Most model families charge less than this. The catalog sets `image_tokens` for those that charge more. */
const defaultTokensPerImage = 5_000;
/**
 * The minimum number of base64 characters per token of audio, for speech at 6 kbit/s, of which Google counts 32 tokens
 * per second.
 */
const minCharactersPerAudioToken = 30;
/**
 * Used if the catalog has no `max_output_tokens`. It's as much as most large models can produce, because calls would
 * exceed a smaller bound.
 */
const defaultMaxOutputTokens = 131_072;
/** Used for input that isn't in the body if the catalog has no window. Most models have a window of this size. */
const defaultInputWindow = 200_000;
/**
 * Input tokens that we assume for each use of a hosted tool. Vendors don't limit them, but search results are smaller
 * than this.
 */
const inputTokensPerToolUse = 20_000;
/** Rerank vendors split documents into chunks of about 500 tokens and bill a hundred chunks as one search. */
const bytesPerSearch = 50_000;

/** If `estimates` is null, tokens are estimated as for a key that has no recent calls. */
export function usageBounds(call: Call, candidates: readonly Candidate[], estimates: UsageEstimates | null = null): UsageBounds {
  const input = scanInput(call);
  const { size } = input;
  let costNanos = 0;
  let tokens = candidates.length === 0 ? size.textBytes : 0;
  for (const candidate of candidates) {
    const estimate = estimates?.estimate(call.caller.quotaKeyId, candidate.id) ?? defaultEstimate;
    tokens = Math.max(tokens, estimateTokens(call, candidate, { size, estimate }));
    const { price } = candidate;
    if (price === null) continue;
    const largest = largestUsage(call, { candidate, price, input });
    costNanos = Math.max(costNanos, tokenCost(largest.tokens, price, largest.units));
  }
  return { costNanos: clampToSafeInteger(costNanos), tokens: clampToSafeInteger(tokens) };
}

/**
 * Returns the usage from which we compute the call's cost reservation at this candidate. The cost is null if the
 * price is unknown.
 */
export function reservedUsage(call: Call, candidate: Candidate): LargestUsage & { readonly costNanos: number | null } {
  const { price } = candidate;
  const { tokens, units } = largestUsage(call, { candidate, price, input: scanInput(call) });
  return { tokens, units, costNanos: price === null ? null : clampToSafeInteger(tokenCost(tokens, price, units)) };
}

/** Scans the body lazily, and only once for all candidates of a plan. */
function scanInput(call: Call): ScannedInput {
  let hides: boolean | null = null;
  let isElsewhere: boolean | null = null;
  const mayHide = (): boolean => {
    hides ??= isPromptRoute(call.route) && hidesAscii(call.body);
    return hides;
  };
  return {
    size: measureInput(call.body),
    mayHide,
    isElsewhere() {
      isElsewhere ??= mayHide() || hasInputElsewhere(call);
      return isElsewhere;
    },
  };
}

function estimateTokens(
  call: Call,
  candidate: Candidate,
  { size, estimate }: { readonly size: InputSize; readonly estimate: UsageEstimate },
): number {
  if (!isPromptRoute(call.route)) return size.textBytes;
  const input = Math.ceil(size.textBytes * estimate.tokensPerByte) + mediaTokens(size, candidate);
  return input + countChoices(call) * Math.min(Math.ceil(estimate.outputTokens), maxOutputPerChoice(call, candidate));
}

/** We can't tell how many tokens a document has, but the vendor refuses more than fit into the model's window. */
function mediaTokens({ images, audioBytes, documentBytes }: InputSize, candidate: Candidate): number {
  const audio = Math.ceil(audioBytes / minCharactersPerAudioToken);
  const documents = Math.min(documentBytes, inputWindowOf(candidate) ?? documentBytes);
  return images * (candidate.imageTokens ?? defaultTokensPerImage) + audio + documents;
}

/** Counts the responses that the request asks for. Some vendors also accept `n` as a string. */
export function countChoices({ body, spans: { members } }: Pick<Call, 'body' | 'spans'>): number {
  const member = members.get('n');
  const text = parseStringMember(body, member);
  return (text === null ? parsePositiveInteger(body, member) : parseLenientCount(text)) ?? 1;
}

/**
 * Returns the caller's limit if there is one, capped at the model's limit, because a vendor refuses or lowers a
 * higher one.
 */
function maxOutputPerChoice({ maxOutputTokens }: Call, candidate: Candidate): number {
  const most = candidate.maxOutputTokens ?? Math.min(candidate.contextWindow ?? defaultMaxOutputTokens, defaultMaxOutputTokens);
  return Math.min(maxOutputTokens ?? most, candidate.maxOutputTokens ?? Number.MAX_SAFE_INTEGER);
}

interface PricedCandidate {
  readonly candidate: Candidate;
  readonly price: Price | null;
  readonly input: ScannedInput;
}

interface ScannedInput {
  readonly size: InputSize;
  /** Reports whether a search of the body for a name may fail because of escapes. */
  readonly mayHide: () => boolean;
  /** See `hasInputElsewhere`. */
  readonly isElsewhere: () => boolean;
}

interface LargestUsage {
  readonly tokens: Tokens;
  readonly units: CallUnits;
}

/**
 * Returns the most that a vendor may bill for the call. All of the input counts at the highest price that may apply
 * to it.
 */
function largestUsage(call: Call, { candidate, price, input: { size, mayHide, isElsewhere } }: PricedCandidate): LargestUsage {
  const { route, body } = call;
  // A token has at least one byte, so the number of bytes is an upper bound.
  let input = size.textBytes + mediaTokens(size, candidate);
  if (!isPromptRoute(route)) {
    const isSearched = route === 'rerank' && price?.perSearchNanos !== undefined;
    const searches = isSearched ? Math.max(estimateSearches(call), 1 + Math.floor(body.length / bytesPerSearch)) : 0;
    return { tokens: { ...noTokens, input }, units: { searches } };
  }
  const window = inputWindowOf(candidate) ?? defaultInputWindow;
  if (input < window && isElsewhere()) input = window;
  const output = maxOutputTokens(call, candidate);
  if (price === null) return { tokens: { ...noTokens, input, output }, units: {} };
  const toolUses = requestedTools(call, price);
  const uses = Object.values(toolUses);
  for (const count of uses) input += count * inputTokensPerToolUse;
  const serviceTier = surchargedTiers(call, price);
  const kind = dearestInput(price, () => mayHide() || mentionsCacheControl(body));
  const units = uses.length === 0 && serviceTier === '' ? {} : { toolUses, ...(serviceTier !== '' && { serviceTier }) };
  return { tokens: { ...noTokens, [kind]: input, output }, units };
}

/**
 * Returns the kind of input that may cost most. Vendors that charge for cache writes may write to the cache without
 * being asked, but only keep an entry for an hour on request.
 */
function dearestInput({ inputNanos, cacheWriteNanos, cacheWrite1hNanos }: Price, mayAskForHour: () => boolean): keyof Tokens {
  if (cacheWrite1hNanos > cacheWriteNanos && cacheWrite1hNanos > inputNanos && mayAskForHour()) return 'cacheWrite1h';
  return cacheWriteNanos > inputNanos ? 'cacheWrite' : 'input';
}

/**
 * Returns the most output tokens of all choices. Includes the size of the prediction, because vendors bill its rejected
 * tokens as output.
 */
export function maxOutputTokens(call: Call, candidate: Candidate): number {
  const prediction = call.spans.members.get('prediction');
  const predicted = prediction?.kind === 'object' ? prediction.value.end - prediction.value.start : 0;
  return clampToSafeInteger(countChoices(call) * (maxOutputPerChoice(call, candidate) + predicted));
}

/**
 * Returns only the tiers that cost more. For a cheaper tier we reserve the standard price, because the vendor may use
 * the standard tier instead.
 */
function surchargedTiers(call: Call, { tierMillionths }: Price): string {
  if (tierMillionths === undefined) return '';
  return requestedTiers(call)
    .filter((tier) => (tierMillionths[tier] ?? 0n) > 1_000_000n)
    .join('+');
}

/**
 * Reports whether the vendor reads input that the body only refers to, such as an earlier response or one of its
 * items, a stored prompt, a file, or media at a URL.
 */
function hasInputElsewhere({ route, body, spans: { members } }: Call): boolean {
  const isNamed = (key: string): boolean => members.has(key) && members.get(key)?.kind !== 'null';
  if (route === 'responses' && (isNamed('previous_response_id') || isNamed('conversation') || isNamed('prompt'))) return true;
  return refersElsewhere(body, route);
}
