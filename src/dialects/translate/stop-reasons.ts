import type { JsonObject } from '../../core/json/narrow.ts';
import type { Tokens } from '../../core/pricing.ts';

/**
 * Maps a stop reason to a chat finish reason. If there are tool calls we always return `tool_calls`, because some
 * vendors report a different reason.
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
 * Maps a finish reason to a messages stop reason. If there are tool calls we always return `tool_use`, because a forced
 * function call ends with `stop`.
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
