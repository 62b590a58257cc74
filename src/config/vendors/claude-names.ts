/** Finds an Anthropic model by the names that clouds use for it. */
import type { ModelValues } from '../file-schema.ts';
import { anthropicModels } from './anthropic.ts';

/**
 * Returns the model's row, so that we know which parameters it accepts. For example,
 * `us.anthropic.claude-haiku-4-5-20251001-v1:0` and `claude-haiku-4-5@20251001` are names of
 * `claude-haiku-4-5-20251001`.
 */
export function findClaude(name: string): ModelValues | undefined {
  const model = name
    .replace(/^(?:[a-z]+\.)?anthropic\./, '')
    .replace(/-v\d+(?::\d+)?$/, '')
    .replace('@', '-');
  return Object.hasOwn(anthropicModels, model) ? anthropicModels[model] : undefined;
}
