/**
 * Converts the token counts that vendors report into five counters that don't overlap (docs/vendors.md). For example,
 * OpenAI's prompt count includes cached tokens, but Anthropic's input count doesn't. We treat a missing count as
 * unknown, which isn't the same as an explicit zero.
 */

import { asCount, asObject, isObject, type JsonObject } from '../../core/json/narrow.ts';
import { noTokens, type Tokens } from '../../core/pricing.ts';

/** Parses the usage of a chat response or of its last chunk. Returns null if the input or output tokens are missing. */
export function parseChatUsage(usage: unknown): Tokens | null {
  if (!isObject(usage)) return null;
  // DeepSeek reports cached tokens in a field next to the prompt count, not in the details.
  const details = asObject(usage.prompt_tokens_details);
  const cached = asCount(details.cached_tokens) ?? asCount(usage.prompt_cache_hit_tokens);
  const written = readWritten(details);
  return toTokens({ whole: usage.prompt_tokens, output: usage.completion_tokens, total: usage.total_tokens, cached, written });
}

/** Parses the usage of a response on the responses route. Returns null if the input or output tokens are missing. */
export function parseResponsesUsage(usage: unknown): Tokens | null {
  if (!isObject(usage)) return null;
  const details = asObject(usage.input_tokens_details);
  const cached = asCount(details.cached_tokens);
  const written = readWritten(details);
  return toTokens({ whole: usage.input_tokens, output: usage.output_tokens, total: usage.total_tokens, cached, written });
}

/** OpenAI and OpenRouter report `cache_write_tokens`, while LiteLLM reports `cache_creation_tokens`. */
function readWritten({ cache_write_tokens: written, cache_creation_tokens: created }: JsonObject): number {
  return asCount(written) ?? asCount(created) ?? 0;
}

interface OpenAiCounts {
  readonly whole: unknown;
  readonly output: unknown;
  readonly total: unknown;
  readonly cached: number | undefined;
  readonly written: number;
}

/**
 * Converts OpenAI's counts. `whole` is the number of all input tokens, including `cached` and `written`. If the input
 * or the output is missing, we derive it from the total.
 *
 * xAI and Google bill reasoning as output but leave it out of the completion tokens. Their total is larger than the sum
 * of input and output, so we add the difference to the output.
 */
function toTokens(usage: OpenAiCounts): Tokens | null {
  const total = asCount(usage.total);
  const rest = (known: number | undefined): number | undefined =>
    total === undefined || known === undefined ? undefined : Math.max(0, total - known);
  const whole = asCount(usage.whole) ?? rest(asCount(usage.output));
  if (whole === undefined) return null;
  const counted = asCount(usage.output);
  const remaining = rest(whole);
  if (counted === undefined && remaining === undefined) return null;
  const output = Math.max(counted ?? 0, remaining ?? 0);
  const { written } = usage;
  const cached = Math.min(usage.cached ?? 0, whole);
  return { input: Math.max(0, whole - cached - written), cachedInput: cached, cacheWrite: written, cacheWrite1h: 0, output };
}

/**
 * Reads the usage of the messages dialect. A stream reports it in several events, and each of them repeats all
 * iterations so far.
 */
export function createMessagesUsage() {
  let reported: Tokens | null = null;
  let unreported = noTokens;
  let knowsInput = false;
  let knowsOutput = false;
  return {
    read(usage: unknown): void {
      if (!isObject(usage)) return;
      reported = parseMessagesUsage(usage, reported);
      if (Array.isArray(usage.iterations)) unreported = sumUnreported(usage.iterations);
      const { input_tokens: input, output_tokens: output } = usage;
      if (input !== undefined && input !== null) knowsInput = asCount(input) !== undefined;
      knowsOutput = asCount(output) !== undefined;
    },
    tokens: (): Tokens | null => reported && addTokens(reported, unreported),
    /** Returns true if the last usage had a count of output tokens, and the last count of input tokens was valid. */
    isComplete: (): boolean => knowsInput && knowsOutput,
  };
}

/** The types of iterations that aren't part of the other counts. */
const unreportedIterations: ReadonlySet<unknown> = new Set(['compaction', 'advisor_message']);

function sumUnreported(iterations: readonly unknown[]): Tokens {
  return iterations
    .filter((iteration) => unreportedIterations.has(asObject(iteration).type))
    .reduce<Tokens>((sum, iteration) => addTokens(sum, parseMessagesUsage(iteration, null) ?? noTokens), noTokens);
}

function addTokens(left: Tokens, right: Tokens): Tokens {
  return {
    input: left.input + right.input,
    cachedInput: left.cachedInput + right.cachedInput,
    cacheWrite: left.cacheWrite + right.cacheWrite,
    cacheWrite1h: left.cacheWrite1h + right.cacheWrite1h,
    output: left.output + right.output,
  };
}

export function sumTokens({ input, cachedInput, cacheWrite, cacheWrite1h, output }: Tokens): number {
  return input + cachedInput + cacheWrite + cacheWrite1h + output;
}

/**
 * Parses the counts of the messages dialect, without the iterations. Streams send cumulative counts in several events,
 * so a new count replaces the one in `earlier`. Some vendors send zero input after the real counts, so we ignore that.
 */
export function parseMessagesUsage(usage: unknown, earlier: Tokens | null): Tokens | null {
  if (!isObject(usage)) return earlier;
  const written = asCount(usage.cache_creation_input_tokens);
  const split = asObject(usage.cache_creation);
  const written1h = asCount(split.ephemeral_1h_input_tokens);
  // In streams, only the first event says how many tokens were written to the 5-minute and to the 1-hour cache. The
  // last event only has the sum, so we subtract the tokens in the 1-hour cache.
  const rest = written === undefined ? undefined : written - (written1h ?? earlier?.cacheWrite1h ?? 0);
  const written5m = asCount(split.ephemeral_5m_input_tokens);
  const counts = {
    input: asCount(usage.input_tokens),
    cachedInput: asCount(usage.cache_read_input_tokens),
    // If the split contradicts the sum, we charge the larger one.
    cacheWrite: written5m === undefined || rest === undefined ? (written5m ?? rest) : Math.max(written5m, rest),
    cacheWrite1h: written1h,
    output: asCount(usage.output_tokens),
  };
  if (earlier === null && Object.values(counts).every((count) => count === undefined)) return null;
  const inputs = [counts.input, counts.cachedInput, written, written1h, written5m].filter((count) => count !== undefined);
  if (earlier !== null && sumTokens(earlier) > earlier.output && inputs.length > 0 && inputs.every((count) => count === 0))
    return { ...earlier, output: counts.output || earlier.output };
  return {
    input: counts.input ?? earlier?.input ?? 0,
    cachedInput: counts.cachedInput ?? earlier?.cachedInput ?? 0,
    cacheWrite: Math.max(0, counts.cacheWrite ?? earlier?.cacheWrite ?? 0),
    cacheWrite1h: counts.cacheWrite1h ?? earlier?.cacheWrite1h ?? 0,
    output: counts.output ?? earlier?.output ?? 0,
  };
}

/** Estimates the tokens of a text. The rule of thumb for English and code is four characters per token. */
export function estimateTokens(characters: number): number {
  return Math.ceil(characters / 4);
}

/** Anthropic scales larger images down to about this many tokens. */
export const tokensPerImage = 1_600;
/** Vendors process each page of a PDF both as text and as an image. */
const tokensPerPage = 2_000;
/**
 * The number of base64 characters that count as one page. Scanned pages are larger than this, and pages of text are
 * smaller.
 */
const charactersPerPage = 100_000;

/** Estimates how many tokens a document has from the length of its base64. */
export function estimateDocumentTokens(characters: number): number {
  return tokensPerPage * Math.max(1, Math.ceil(characters / charactersPerPage));
}
