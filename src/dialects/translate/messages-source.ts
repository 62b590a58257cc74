import { asCount, asObject, asString, isObject, type JsonObject } from '../../core/json/narrow.ts';
import { parseJson } from '../../core/json/parse.ts';
import type { Tokens } from '../../core/pricing.ts';
import { parseMessagesUsage } from '../contract/token-usage.ts';
import { unnamedProblem, type VendorEvent } from './stream.ts';

export interface MessagesPart {
  readonly event: JsonObject;
  /** The event's JSON text. We parse it again if we need large numbers that aren't rounded. */
  readonly data: string;
}

export function createMessagesSource() {
  let stopReason: unknown = null;
  let tokens: Tokens | null = null;
  let thinkingTokens = 0;

  const readUsage = (usage: unknown): void => {
    tokens = parseMessagesUsage(usage, tokens);
    thinkingTokens = countThinking(usage) ?? thinkingTokens;
  };

  return {
    read(data: string): VendorEvent<MessagesPart> {
      const event = data === '' ? null : parseJson(data);
      if (!isObject(event)) return { kind: 'ignored' };
      switch (event.type) {
        case 'message_start':
          readUsage(asObject(event.message).usage);
          return { kind: 'part', event, data };
        case 'content_block_start':
        case 'content_block_delta':
        case 'content_block_stop':
          return { kind: 'part', event, data };
        case 'message_delta':
          stopReason = asObject(event.delta).stop_reason ?? stopReason;
          readUsage(event.usage);
          return { kind: 'part', event, data };
        case 'message_stop':
          return { kind: 'end' };
        case 'ping':
          return { kind: 'keep-alive' };
        case 'error':
          return { kind: 'error', message: asString(asObject(event.error).message) ?? unnamedProblem };
        default:
          // Anthropic asks clients to skip event types that they don't know (docs/vendors.md).
          return { kind: 'ignored' };
      }
    },
    isComplete: () => false,
    /** Returns the stop reason and the usage that the vendor has sent so far. */
    end: () => ({ stopReason, tokens, thinkingTokens }),
  };
}

export function countThinking(usage: unknown): number | undefined {
  return asCount(asObject(asObject(usage).output_tokens_details).thinking_tokens);
}
