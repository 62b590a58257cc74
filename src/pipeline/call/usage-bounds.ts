/**
 * Computes what a call reserves before it is sent: an upper bound of its cost, and an estimate of its tokens. We
 * always record the actual usage. See docs/architecture/ceilings.md#upper-bounds.
 */

import type { UsageBounds } from '../../ceilings/reservation.ts';
import { type Call, isPromptRoute } from '../../core/call.ts';
import type { Candidate } from '../../core/candidate.ts';
import { clampToSafeInteger, tokenCost } from '../../core/cost.ts';
import { ownValue } from '../../core/own-value.ts';
import { type CallUnits, noTokens, type Price, type Tokens } from '../../core/pricing.ts';
import { estimateTokens as estimateTextTokens } from '../../dialects/contract/token-usage.ts';
import type { InputSize } from '../../dialects/json/body-facts.ts';
import { hidesAscii, parseLenientCount, parsePositiveInteger, parseStringMember } from '../../dialects/json/body-members.ts';
import { measureInput } from '../../dialects/routes/input-size.ts';
import { countMedia, isNamed, mentionsCacheControl, namesOutsideInput, refersElsewhere } from '../../dialects/routes/outside-input.ts';
import { inputWindowOf } from '../../failover/context-window.ts';
import { requestedTiers, requestedTools } from './extra-charges.ts';
import { estimateSearches, isChargedBySearch, repeatedQuery } from './rerank-usage.ts';
import { defaultEstimate, type UsageEstimate, type UsageEstimates } from './usage-estimates.ts';

/** Most model families charge less than this. The catalog sets `image_tokens` for those that charge more. */
const defaultTokensPerImage = 5_000;
/**
 * The minimum number of base64 characters per audio token. Speech takes up at least 6 kbit/s, and Google counts 32
 * tokens per second of audio.
 */
const minCharactersPerAudioToken = 30;
/**
 * Used if the catalog has no `max_output_tokens`. Most large models can't generate more than this, but they do generate
 * enough to exceed a smaller value.
 */
const defaultMaxOutputTokens = 131_072;
/**
 * The number of tokens that we assume for input outside the body if the catalog has no context window for the model.
 * Most models have a window of this size.
 */
const defaultInputWindow = 200_000;
/**
 * The number of input tokens that we assume for each use of a hosted tool. Vendors set no limit, but search results are
 * smaller than this.
 */
const inputTokensPerToolUse = 20_000;
/** Rerank vendors split documents into chunks of about 500 tokens and bill a hundred chunks as one search. */
const bytesPerSearch = 50_000;

/** If `estimates` is null, we use the default estimates, as we do for a key that hasn't made any calls lately. */
export function usageBounds(call: Call, candidates: readonly Candidate[], estimates: UsageEstimates | null = null): UsageBounds {
  const input = new ScannedInput(call);
  let costNanos = 0;
  let tokens = candidates.length === 0 ? input.textBytes() : 0;
  for (const candidate of candidates) {
    const estimate = estimates?.estimate(call.caller.quotaKeyId, candidate.id) ?? defaultEstimate;
    tokens = Math.max(tokens, estimateTokens(call, candidate, { input, estimate }));
    const { price } = candidate;
    if (price === null) continue;
    const largest = largestUsage(call, { candidate, price, input });
    costNanos = Math.max(costNanos, tokenCost(largest.tokens, price, largest.units));
  }
  return { costNanos: clampToSafeInteger(costNanos), tokens: clampToSafeInteger(tokens) };
}

/**
 * Returns the usage that we reserve for a call if this candidate serves it. Its cost is null if the price is unknown.
 */
export function reservedUsage(call: Call, candidate: Candidate): LargestUsage & { readonly costNanos: number | null } {
  const { price } = candidate;
  const { tokens, units } = largestUsage(call, { candidate, price, input: new ScannedInput(call) });
  return { tokens, units, costNanos: price === null ? null : clampToSafeInteger(tokenCost(tokens, price, units)) };
}

/**
 * Returns the input that we charge for a call if its vendor didn't report the usage and a part of the input isn't in
 * the body. This is the input that we reserve, except that we never charge more than fits into the model's window.
 * Returns null if all of the input is in the body.
 */
export function outsideInput(call: Call, candidate: Candidate): Tokens | null {
  const input = new ScannedInput(call);
  const window = assumedWindow(candidate);
  if (!isPromptRoute(call.route)) {
    const media = input.media();
    return media === 0 ? null : { ...noTokens, input: estimateTextTokens(input.textBytes()) + media * window };
  }
  if (input.size.documentBytes === 0 && !input.isElsewhere()) return null;
  const { price } = candidate;
  const { tokens } = largestUsage(call, { candidate, price, input });
  const fitting = (count: number): number => Math.min(count, window);
  const { input: uncached, cacheWrite, cacheWrite1h } = tokens;
  return { ...noTokens, input: fitting(uncached), cacheWrite: fitting(cacheWrite), cacheWrite1h: fitting(cacheWrite1h) };
}

function assumedWindow(candidate: Candidate): number {
  return inputWindowOf(candidate) ?? defaultInputWindow;
}

/**
 * Measures and scans a request body once for all candidates. Scans that aren't always needed are only done on demand.
 */
class ScannedInput {
  readonly size: InputSize;
  readonly #call: Call;
  #mayHide: boolean | null = null;
  #isElsewhere: boolean | null = null;
  #media: number | null = null;
  #repeated: ReturnType<typeof repeatedQuery> | null = null;

  constructor(call: Call) {
    this.size = measureInput(call.body);
    this.#call = call;
  }

  /** Returns true if the body may contain escaped letters, because a search for a name could then miss it. */
  mayHide(): boolean {
    this.#mayHide ??= isPromptRoute(this.#call.route) && hidesAscii(this.#call.body);
    return this.#mayHide;
  }

  isElsewhere(): boolean {
    this.#isElsewhere ??= this.mayHide() || hasInputElsewhere(this.#call);
    return this.#isElsewhere;
  }

  /** Returns the length of the text that the model reads. Rerank models read the query more than once. */
  textBytes(): number {
    return this.size.textBytes + this.#repeatedQuery().bytes;
  }

  /** Returns how many media items the model has to read for an embeddings or rerank request. */
  media(): number {
    this.#media ??= countMedia(this.#call.body, this.#call.route) + this.#repeatedQuery().media;
    return this.#media;
  }

  #repeatedQuery(): ReturnType<typeof repeatedQuery> {
    this.#repeated ??= repeatedQuery(this.#call);
    return this.#repeated;
  }
}

function estimateTokens(
  call: Call,
  candidate: Candidate,
  { input: scanned, estimate }: { readonly input: ScannedInput; readonly estimate: UsageEstimate },
): number {
  const { size } = scanned;
  const { price } = candidate;
  if (!isPromptRoute(call.route)) return price !== null && isChargedBySearch(call, price) ? size.textBytes : scanned.textBytes();
  const input = Math.ceil(size.textBytes * estimate.tokensPerByte) + mediaTokens(size, candidate);
  return input + countChoices(call) * Math.min(Math.ceil(estimate.outputTokens), maxOutputPerChoice(call, candidate));
}

/**
 * Estimates the tokens of images, audio and documents. We can't tell how many tokens a document has, but it can't be
 * more than the model's window, because the vendor would reject the call.
 */
function mediaTokens({ images, audioBytes, documentBytes }: InputSize, candidate: Candidate): number {
  const audio = Math.ceil(audioBytes / minCharactersPerAudioToken);
  const documents = Math.min(documentBytes, inputWindowOf(candidate) ?? documentBytes);
  return images * (candidate.imageTokens ?? defaultTokensPerImage) + audio + documents;
}

/** Returns how many responses the request asks for. `n` may be a string, because some vendors accept that. */
export function countChoices({ body, spans: { members } }: Pick<Call, 'body' | 'spans'>): number {
  const member = members.get('n');
  const text = parseStringMember(body, member);
  return (text === null ? parsePositiveInteger(body, member) : parseLenientCount(text)) ?? 1;
}

/**
 * Returns the caller's limit, but no more than the model's own limit, because a vendor rejects or lowers a higher one.
 * Without a limit from the caller, returns the most that the model can generate.
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

interface LargestUsage {
  readonly tokens: Tokens;
  readonly units: CallUnits;
}

/** Returns the highest usage that a vendor can bill, with all input at the highest price that can apply. */
function largestUsage(call: Call, { candidate, price, input: scanned }: PricedCandidate): LargestUsage {
  const { route, body } = call;
  const { size } = scanned;
  // A token has at least one byte, so the number of bytes is an upper bound.
  let input = scanned.textBytes() + mediaTokens(size, candidate);
  if (!isPromptRoute(route)) {
    const isSearched = route === 'rerank' && price?.perSearchNanos !== undefined;
    // A model for embeddings reads each item on its own, so each one can fill the window.
    input += scanned.media() * assumedWindow(candidate);
    const searches = isSearched ? Math.max(estimateSearches(call), 1 + Math.floor(body.length / bytesPerSearch)) : 0;
    return { tokens: { ...noTokens, input }, units: { searches } };
  }
  const window = assumedWindow(candidate);
  if (input < window && scanned.isElsewhere()) input = window;
  let output = maxOutputTokens(call, candidate);
  if (mayCompact(call)) {
    input *= 2;
    output *= 2;
  }
  if (price === null) return { tokens: { ...noTokens, input, output }, units: {} };
  const toolUses = requestedTools(call, price);
  const uses = Object.values(toolUses);
  for (const count of uses) input += count * inputTokensPerToolUse;
  const serviceTier = surchargedTiers(call, price);
  const kind = dearestInput(price, () => scanned.mayHide() || mentionsCacheControl(body));
  const units = uses.length === 0 && serviceTier === '' ? {} : { toolUses, ...(serviceTier !== '' && { serviceTier }) };
  const tokens = { ...noTokens, output };
  // Setting the property afterwards takes a third of the time of a computed key in the literal.
  tokens[kind] = input;
  return { tokens, units };
}

/**
 * Returns the most expensive kind of input token that a vendor may bill. Vendors that charge for cache writes may write
 * to their cache without being asked, but they only keep an entry for an hour if the request asks for it.
 */
function dearestInput({ inputNanos, cacheWriteNanos, cacheWrite1hNanos }: Price, mayAskForHour: () => boolean): keyof Tokens {
  if (cacheWrite1hNanos > cacheWriteNanos && cacheWrite1hNanos > inputNanos && mayAskForHour()) return 'cacheWrite1h';
  return cacheWriteNanos > inputNanos ? 'cacheWrite' : 'input';
}

/**
 * Returns an upper bound for the output tokens of all choices together. This includes the predicted output, because
 * vendors bill rejected tokens of a prediction as output.
 */
export function maxOutputTokens(call: Call, candidate: Candidate): number {
  const prediction = call.spans.members.get('prediction');
  const predicted = prediction?.kind === 'object' ? prediction.value.end - prediction.value.start : 0;
  return clampToSafeInteger(countChoices(call) * (maxOutputPerChoice(call, candidate) + predicted));
}

/**
 * Returns the requested tiers that cost extra. We ignore cheaper tiers, because the vendor may fall back to the
 * standard tier, so we have to reserve the standard price.
 */
function surchargedTiers(call: Call, { tierMillionths }: Price): string {
  if (tierMillionths === undefined) return '';
  return requestedTiers(call)
    .filter((tier) => (ownValue(tierMillionths, tier) ?? 0n) > 1_000_000n)
    .join('+');
}

/**
 * Returns true if the vendor may summarize the prompt before it responds. It bills this like a request of its own, so
 * we reserve the input and the output twice.
 */
function mayCompact({ body, spans: { members } }: Call): boolean {
  const management = members.get('context_management');
  if (management?.kind !== 'object' && management?.kind !== 'array') return false;
  const text = body.subarray(management.value.start, management.value.end);
  return text.includes('"compact') || hidesAscii(text);
}

const outsideFields = ['previous_response_id', 'conversation', 'prompt'] as const;

/**
 * Returns true if the vendor reads input that isn't in the body itself, e.g. an earlier response or one of its items, a
 * stored prompt, a thread, cached content, a file, the results of an MCP server, or media at a URL.
 */
function hasInputElsewhere({ route, body, spans }: Call): boolean {
  if (route === 'responses' && outsideFields.some((key) => isNamed(spans.members.get(key)))) return true;
  if (route === 'messages' && isNamed(spans.members.get('thread'))) return true;
  return namesOutsideInput(body, spans) || refersElsewhere(body, route);
}
