import type { JsonObject } from '../../core/json/narrow.ts';
import type { Tokens } from '../../core/pricing.ts';

/**
 * Maps a stop reason to a chat finish reason. If a response with tool calls is neither cut off nor refused, we return
 * `tool_calls`, because some vendors report a different reason.
 */
export function toFinishReason(stopReason: unknown, hasToolCalls: boolean): string {
  switch (stopReason) {
    case 'max_tokens':
    case 'model_context_window_exceeded':
      return 'length';
    case 'refusal':
      return 'content_filter';
    default:
      return hasToolCalls ? 'tool_calls' : 'stop';
  }
}

/**
 * Maps a finish reason to a messages stop reason. If a response with tool calls is neither cut off nor refused, we
 * return `tool_use`, because a forced function call ends with `stop`.
 */
export function toStopReason(finishReason: unknown, hasToolCalls: boolean): string {
  switch (finishReason) {
    case 'length':
      return 'max_tokens';
    case 'content_filter':
      return 'refusal';
    default:
      return hasToolCalls ? 'tool_use' : 'end_turn';
  }
}

/**
 * Maps a chat finish reason to the reason why a response of the responses route is incomplete. Null if it's complete.
 */
export function toIncompleteReason(finishReason: unknown): IncompleteReason | null {
  if (finishReason === 'length') return 'max_output_tokens';
  return finishReason === 'content_filter' ? 'content_filter' : null;
}

export type IncompleteReason = 'max_output_tokens' | 'content_filter';

/** Formats the usage of a chat response. In this dialect, prompt tokens include cache reads and writes. */
export function toChatUsage({ input, cachedInput, cacheWrite, cacheWrite1h, output }: Tokens): JsonObject {
  const written = cacheWrite + cacheWrite1h;
  const prompt = input + cachedInput + written;
  return {
    prompt_tokens: prompt,
    completion_tokens: output,
    total_tokens: prompt + output,
    prompt_tokens_details: written > 0 ? { cached_tokens: cachedInput, cache_write_tokens: written } : { cached_tokens: cachedInput },
  };
}

/**
 * Formats the usage of a messages response. Usage is required, so it consists of zeros if the vendor didn't report any.
 */
export function toMessagesUsage(tokens: Tokens | null): JsonObject {
  return {
    input_tokens: tokens?.input ?? 0,
    cache_creation_input_tokens: (tokens?.cacheWrite ?? 0) + (tokens?.cacheWrite1h ?? 0),
    cache_read_input_tokens: tokens?.cachedInput ?? 0,
    output_tokens: tokens?.output ?? 0,
  };
}

/**
 * Formats the usage of a response on the responses route. Input tokens include those from the prompt cache, and output
 * tokens include reasoning. Returns null if the vendor didn't report any usage.
 */
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
