import { asArray, asCount, asObject, asString, isObject, type JsonObject } from '../../core/json/narrow.ts';
import { parseJson } from '../../core/json/parse.ts';
import type { Tokens } from '../../core/pricing.ts';
import { parseChatUsage } from '../contract/token-usage.ts';
import { unnamedProblem, type VendorEvent } from './stream.ts';

interface ChatPart {
  readonly chunk: JsonObject;
  readonly delta: JsonObject;
}

export function createChatSource() {
  let finishReason: string | null = null;
  let tokens: Tokens | null = null;
  let reasoningTokens = 0;

  const readUsage = (usage: unknown): void => {
    tokens = parseChatUsage(usage) ?? tokens;
    reasoningTokens = countReasoning(usage) ?? reasoningTokens;
  };

  return {
    read(data: string): VendorEvent<ChatPart> {
      if (data === '') return { kind: 'keep-alive' };
      if (data === '[DONE]') return { kind: 'end' };
      const chunk = parseJson(data);
      if (!isObject(chunk)) return { kind: 'ignored' };
      const { error } = chunk;
      if (error !== undefined && error !== null)
        return { kind: 'error', message: asString(asObject(error).message) ?? asString(error) ?? unnamedProblem };
      if (isObject(chunk.x_groq)) readUsage(chunk.x_groq.usage);
      if (isObject(chunk.usage)) readUsage(chunk.usage);
      // The messages dialect only has one choice, so take the first. There may be none at all, e.g. in the first chunk
      // of some vendors.
      const choice = asArray(chunk.choices).map(asObject).find(isFirstChoice);
      if (!choice) return { kind: 'ignored' };
      finishReason = asString(choice.finish_reason) ?? finishReason;
      return { kind: 'part', chunk, delta: asObject(choice.delta) };
    },
    isComplete: () => finishReason !== null,
    /** Returns the finish reason and the usage that the vendor has sent so far. */
    end: () => ({ finishReason, tokens, reasoningTokens }),
  };
}

function isFirstChoice({ index }: JsonObject): boolean {
  return index === undefined || index === null || index === 0;
}

export function countReasoning(usage: unknown): number | undefined {
  return asCount(asObject(asObject(usage).completion_tokens_details).reasoning_tokens);
}
