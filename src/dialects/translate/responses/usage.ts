/**
 * Formats the usage of a response. On this route, input tokens include those from the prompt cache, and output tokens
 * include reasoning.
 */
import type { JsonObject } from '../../../core/json/narrow.ts';
import type { Tokens } from '../../../core/pricing.ts';

/** Returns null if the vendor didn't report any usage. */
export function toResponsesUsage(tokens: Tokens | null, reasoningTokens: number): JsonObject | null {
  if (tokens === null) return null;
  const { input, cachedInput, cacheWrite, cacheWrite1h, output } = tokens;
  const written = cacheWrite + cacheWrite1h;
  const all = input + cachedInput + written;
  return {
    input_tokens: all,
    input_tokens_details: { cached_tokens: cachedInput, cache_write_tokens: written },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: reasoningTokens },
    total_tokens: all + output,
  };
}
