/**
 * Five disjoint token counters from what vendors report (vendor facts 9, lessons 22): OpenAI's prompt count includes cached tokens,
 * Anthropic's input count excludes them. An explicit zero is data; a missing count is not zero but unknown.
 */
import { noTokens, type Tokens } from '../core/call.ts';
import { countOf, isObject, objectOf } from '../core/json.ts';

/** Usage object of chat answers and of their last chunk; null when it holds no counts. */
export function readChatUsage(usage: unknown): Tokens | null {
  if (!isObject(usage)) return null;
  const prompt = countOf(usage.prompt_tokens);
  const output = countOf(usage.completion_tokens);
  if (prompt === undefined && output === undefined) return null;
  // DeepSeek reports its cache beside the prompt count instead of in the details.
  const cached = countOf(objectOf(usage.prompt_tokens_details).cached_tokens) ?? countOf(usage.prompt_cache_hit_tokens) ?? 0;
  const input = Math.max(0, (prompt ?? 0) - cached);
  return { input, cachedInput: cached, cacheWrite: 0, cacheWrite1h: 0, output: output ?? 0 };
}

/** Usage object of responses; null when it holds no counts. */
export function readResponsesUsage(usage: unknown): Tokens | null {
  if (!isObject(usage)) return null;
  const whole = countOf(usage.input_tokens);
  const output = countOf(usage.output_tokens);
  if (whole === undefined && output === undefined) return null;
  const cached = countOf(objectOf(usage.input_tokens_details).cached_tokens) ?? 0;
  return { ...noTokens, input: Math.max(0, (whole ?? 0) - cached), cachedInput: cached, output: output ?? 0 };
}

/** Usage object of the messages dialect. In streams counts are cumulative and come in parts: later ones replace `earlier` ones. */
export function readMessagesUsage(usage: unknown, earlier: Tokens | null): Tokens | null {
  if (!isObject(usage)) return earlier;
  const written = countOf(usage.cache_creation_input_tokens);
  const split = objectOf(usage.cache_creation);
  const written1h = countOf(split.ephemeral_1h_input_tokens);
  // Streams give the split once, at their start, and the sum of both again at their end.
  const rest = written === undefined ? undefined : written - (written1h ?? earlier?.cacheWrite1h ?? 0);
  const written5m = countOf(split.ephemeral_5m_input_tokens) ?? rest;
  const counts = {
    input: countOf(usage.input_tokens),
    cachedInput: countOf(usage.cache_read_input_tokens),
    cacheWrite: written5m,
    cacheWrite1h: written1h,
    output: countOf(usage.output_tokens),
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
