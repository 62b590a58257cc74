/** How answers end in both dialects: stop reasons and usage (vendor facts 8.2). */

import type { JsonObject } from '../../core/json/narrow.ts';
import type { Tokens } from '../../core/pricing.ts';

/** Chat's word for a stop reason. Some vendors stop with another reason although there are tool calls; the calls decide. */
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

/** Messages' word for a finish reason. A forced function ends a chat answer with `stop`; the tool calls decide. */
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

/** Usage object of a chat answer: the prompt count includes what was read from and written to the cache. */
export function toChatUsage({ input, cachedInput, cacheWrite, cacheWrite1h, output }: Tokens): JsonObject {
  const prompt = input + cachedInput + cacheWrite + cacheWrite1h;
  return {
    prompt_tokens: prompt,
    completion_tokens: output,
    total_tokens: prompt + output,
    prompt_tokens_details: { cached_tokens: cachedInput },
  };
}

/** Usage object of a messages answer, which must have one: zero where the vendor reported nothing. */
export function toMessagesUsage(tokens: Tokens | null): JsonObject {
  return {
    input_tokens: tokens?.input ?? 0,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: tokens?.cachedInput ?? 0,
    output_tokens: tokens?.output ?? 0,
  };
}
