/**
 * Five disjoint token counters from what vendors report (vendor facts 9, lessons 22): OpenAI's prompt count includes cached tokens,
 * Anthropic's input count excludes them. An explicit zero is data; a missing count is not zero but unknown.
 */

import { asCount, asObject, isObject } from '../../core/json/narrow.ts';
import { noTokens, type Tokens } from '../../core/pricing.ts';

/** Usage object of chat answers and of their last chunk; null when it does not tell input and output. */
export function parseChatUsage(usage: unknown): Tokens | null {
  if (!isObject(usage)) return null;
  // DeepSeek reports its cache beside the prompt count instead of in the details.
  const cached = asCount(asObject(usage.prompt_tokens_details).cached_tokens) ?? asCount(usage.prompt_cache_hit_tokens);
  return toTokens({ whole: usage.prompt_tokens, output: usage.completion_tokens, total: usage.total_tokens, cached });
}

/** Usage object of responses; null when it does not tell input and output. */
export function parseResponsesUsage(usage: unknown): Tokens | null {
  if (!isObject(usage)) return null;
  const cached = asCount(asObject(usage.input_tokens_details).cached_tokens);
  return toTokens({ whole: usage.input_tokens, output: usage.output_tokens, total: usage.total_tokens, cached });
}

/** OpenAI's counts: `whole` is all of the input, `cached` a part of it. Of the three others two tell the third. */
function toTokens(usage: { whole: unknown; output: unknown; total: unknown; cached: number | undefined }): Tokens | null {
  const total = asCount(usage.total);
  const rest = (known: number | undefined): number | undefined =>
    total === undefined || known === undefined ? undefined : Math.max(0, total - known);
  const whole = asCount(usage.whole) ?? rest(asCount(usage.output));
  const output = asCount(usage.output) ?? rest(whole);
  if (whole === undefined || output === undefined) return null;
  const { cached = 0 } = usage;
  return { ...noTokens, input: Math.max(0, whole - cached), cachedInput: cached, output };
}

/** Usage object of the messages dialect. In streams counts are cumulative and come in parts: later ones replace `earlier` ones. */
export function parseMessagesUsage(usage: unknown, earlier: Tokens | null): Tokens | null {
  if (!isObject(usage)) return earlier;
  const written = asCount(usage.cache_creation_input_tokens);
  const split = asObject(usage.cache_creation);
  const written1h = asCount(split.ephemeral_1h_input_tokens);
  // Streams give the split once, at their start, and the sum of both again at their end.
  const rest = written === undefined ? undefined : written - (written1h ?? earlier?.cacheWrite1h ?? 0);
  const written5m = asCount(split.ephemeral_5m_input_tokens) ?? rest;
  const counts = {
    input: asCount(usage.input_tokens),
    cachedInput: asCount(usage.cache_read_input_tokens),
    cacheWrite: written5m,
    cacheWrite1h: written1h,
    output: asCount(usage.output_tokens),
  };
  if (earlier === null && Object.values(counts).every((count) => count === undefined)) return null;
  return {
    input: counts.input ?? earlier?.input ?? 0,
    cachedInput: counts.cachedInput ?? earlier?.cachedInput ?? 0,
    cacheWrite: Math.max(0, counts.cacheWrite ?? earlier?.cacheWrite ?? 0),
    cacheWrite1h: counts.cacheWrite1h ?? earlier?.cacheWrite1h ?? 0,
    output: counts.output ?? earlier?.output ?? 0,
  };
}

/** Tokens of a text of which nobody counted them: four characters each, the usual rule of thumb for English text and code. */
export function estimateTokens(characters: number): number {
  return Math.ceil(characters / 4);
}
