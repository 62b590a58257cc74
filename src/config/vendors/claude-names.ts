/** Finds out which of Anthropic's models a cloud's name for a model refers to. */
import type { ModelValues } from '../file-schema.ts';
import { anthropicModels } from './anthropic.ts';

/**
 * Returns the row of Anthropic's own model, which tells us what the model accepts. For example, both
 * `us.anthropic.claude-haiku-4-5-20251001-v1:0` and `claude-haiku-4-5@20251001` lead to `claude-haiku-4-5-20251001`.
 */
export function findClaude(name: string): ModelValues | undefined {
  const model = name
    .replace(/^(?:[a-z]+\.)?anthropic\./, '')
    .replace(/-v\d+(?::\d+)?$/, '')
    .replace('@', '-');
  return Object.hasOwn(anthropicModels, model) ? anthropicModels[model] : undefined;
}
