/** The codec for `POST /messages/count_tokens`. The result is an estimate if a vendor doesn't have this route. */
import { asCount, asObject, asString, isObject, type JsonObject } from '../../core/json/narrow.ts';
import { parseJson } from '../../core/json/parse.ts';
import type { BodySpans } from '../../core/json/spans.ts';
import { noTokens } from '../../core/pricing.ts';
import type { RequestSummary, ResponseSummary, RouteCodec } from '../contract/route-codec.ts';
import { estimateDocumentTokens, estimateTokens, tokensPerImage } from '../contract/token-usage.ts';
import { rejectDuplicateKeys } from '../json/body-members.ts';
import { messages, parseModel, requireMessages } from './codec.ts';

export const countTokens: RouteCodec = { ...messages, path: '/messages/count_tokens', parseRequest, parseResponse };

/** Parses the body of a request to count tokens. It's a messages request that has no `max_tokens` and never streams. */
function parseRequest(body: Buffer, spans: BodySpans): RequestSummary {
  rejectDuplicateKeys(spans, ['model', 'messages', 'system', 'tools']);
  const model = parseModel(body, spans);
  requireMessages(spans);
  return { model, stream: false, maxOutputTokens: null, user: null };
}

function parseResponse(bytes: Buffer): ResponseSummary | null {
  const input = asCount(asObject(parseJson(bytes.toString('utf8'))).input_tokens);
  return input === undefined
    ? null
    : { tokens: { ...noTokens, input }, isFinal: true, turn: { text: '', toolCalls: [] }, generatedCharacters: 0 };
}

/**
 * Estimates the input tokens of a messages body. We assume four bytes per token for the system prompt, messages and
 * tools. Images and documents have estimates of their own, because their base64 is much longer than that. Thinking in
 * earlier turns isn't counted.
 */
export function estimateInputTokens(body: Buffer, { members }: BodySpans): number {
  const { system, messages: list } = asObject(parseJson(body.toString('utf8')));
  const tools = members.get('tools')?.value;
  let bytes = tools ? tools.end - tools.start : 0;
  let tokens = 0;
  // Avoid recursion, because a body can be nested deeply enough to overflow the stack.
  const pending: unknown[] = [system, list];
  while (pending.length > 0) {
    const value = pending.pop();
    if (typeof value === 'string') bytes += Buffer.byteLength(value);
    else if (Array.isArray(value)) for (const part of value) pending.push(part);
    else if (isObject(value)) {
      const fixed = estimateBlock(value);
      if (fixed !== null) tokens += fixed;
      else for (const part of Object.values(value)) pending.push(part);
    }
  }
  return estimateTokens(bytes) + tokens;
}

/**
 * Estimates the tokens of an image, document or thinking block. Returns null for all other blocks, whose tokens depend
 * on their text.
 */
function estimateBlock({ type, source }: JsonObject): number | null {
  switch (type) {
    case 'image':
      return tokensPerImage;
    case 'document': {
      const { type: form, data } = asObject(source);
      if (form === 'text' || form === 'content') return null;
      return estimateDocumentTokens((asString(data) ?? '').length);
    }
    case 'thinking':
    case 'redacted_thinking':
      return 0;
    default:
      return null;
  }
}
