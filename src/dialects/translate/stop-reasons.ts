/** Translates stop reasons and usage between the dialects. */

import type { JsonObject } from '../../core/json/narrow.ts';
import type { Tokens } from '../../core/pricing.ts';

/** The chat finish reason of a stop reason. Tool calls decide: some vendors report another reason with them. */
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

/** The messages stop reason of a finish reason. Tool calls decide: a forced function ends with `stop`. */
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

/** Usage of a chat response: the prompt count includes cache reads and writes. */
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

/** Usage of a messages response, which is mandatory there: zero where the vendor reported nothing. */
export function toMessagesUsage(tokens: Tokens | null): JsonObject {
  return {
    input_tokens: tokens?.input ?? 0,
    cache_creation_input_tokens: (tokens?.cacheWrite ?? 0) + (tokens?.cacheWrite1h ?? 0),
    cache_read_input_tokens: tokens?.cachedInput ?? 0,
    output_tokens: tokens?.output ?? 0,
  };
}
