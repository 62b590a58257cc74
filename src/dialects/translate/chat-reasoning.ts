/**
 * Reads and writes reasoning in messages and deltas of the chat dialect. There's no standard for it, so we read all of
 * these forms:
 *
 * - `reasoning_content` (DeepSeek, Moonshot, vLLM) or `reasoning` (OpenRouter, Groq) is the text.
 * - `reasoning_details` (OpenRouter) has entries that are encrypted, or that have a text and its signature.
 * - `thinking_blocks` (LiteLLM) are blocks of the messages dialect.
 * - `content` may have parts of type `thinking` (Mistral).
 *
 * We write `reasoning_content`, because most clients show it. Signed or encrypted reasoning goes into
 * `reasoning_details`, because clients send that back. Each entry holds the whole text, because some SDKs only keep the
 * last delta of a field that they don't know.
 */
import { asArray, asString, type JsonObject } from '../../core/json/narrow.ts';
import { asLosslessObject, asNonEmptyString } from '../json/lossless-json.ts';

/**
 * A part of a model's reasoning, either text or encrypted. Vendors of the messages dialect sign each part separately.
 */
export type ReasoningPart =
  /**
   * `signature` is empty if the vendor hasn't signed the part. `isWhole` is true for a complete list entry, which may
   * repeat text that was already streamed.
   */
  | { readonly kind: 'text'; readonly text: string; readonly signature: string; readonly isWhole: boolean }
  /** Encrypted reasoning, which only the vendor that created it can read. */
  | { readonly kind: 'encrypted'; readonly data: string };

const nothing: readonly ReasoningPart[] = [];

/**
 * Returns the reasoning parts of a message or delta, in order. Consecutive text parts form a single text, which ends
 * with the first part that has a signature.
 */
export function readReasoning({ reasoning_details: details, thinking_blocks: blocks, ...message }: JsonObject): readonly ReasoningPart[] {
  if (details !== undefined || blocks !== undefined) {
    const ofDetails = asArray(details).flatMap((detail) => readDetail(asLosslessObject(detail)));
    const parts = ofDetails.length > 0 ? ofDetails : asArray(blocks).flatMap((block) => readThinkingBlock(asLosslessObject(block)));
    if (parts.length > 0) return parts;
  }
  const text = asString(message.reasoning_content) ?? asString(message.reasoning) ?? readThinkingParts(message.content);
  return text === null ? nothing : [{ kind: 'text', text, signature: '', isWhole: false }];
}

/** Returns the reasoning in a `thinking` or `redacted_thinking` block, or nothing for any other block. */
export function readThinkingBlock({ type, thinking, signature, data }: JsonObject): readonly ReasoningPart[] {
  const encrypted = asNonEmptyString(data);
  if (type === 'redacted_thinking') return encrypted === null ? nothing : [{ kind: 'encrypted', data: encrypted }];
  if (type !== 'thinking') return nothing;
  return [{ kind: 'text', text: asString(thinking) ?? '', signature: asString(signature) ?? '', isWhole: true }];
}

/**
 * Converts parts to blocks of the messages dialect. SDKs don't accept a block without `signature`, so unsigned text
 * gets an empty one.
 */
export function toThinkingBlocks(parts: readonly ReasoningPart[]): JsonObject[] {
  return joinTexts(parts).map((part) =>
    part.kind === 'encrypted'
      ? { type: 'redacted_thinking', data: part.data }
      : { type: 'thinking', thinking: part.text, signature: part.signature },
  );
}

/** Leaves out text without a signature, because messages vendors reject thinking that they haven't signed. */
export function signedParts(parts: readonly ReasoningPart[]): ReasoningPart[] {
  return joinTexts(parts).filter((part) => part.kind === 'encrypted' || part.signature !== '');
}

/**
 * Converts parts to fields of a chat message. `reasoning_content` has the text of all parts, and `reasoning_details`
 * has the signed and encrypted parts.
 */
export function toReasoningMembers(parts: readonly ReasoningPart[]): JsonObject {
  const text = reasoningText(parts);
  const details = signedParts(parts).map(toReasoningDetail);
  return { ...(text !== '' && { reasoning_content: text }), ...(details.length > 0 && { reasoning_details: details }) };
}

/**
 * Creates an entry for `reasoning_details`. Each entry of a response needs its own `index`, because SDKs merge entries
 * that have the same index.
 */
export function toReasoningDetail(part: ReasoningPart, index: number): JsonObject {
  if (part.kind === 'encrypted') return { type: 'reasoning.encrypted', data: part.data, format: messagesFormat, index };
  return { type: 'reasoning.text', text: part.text, signature: part.signature, format: messagesFormat, index };
}

export function reasoningText(parts: readonly ReasoningPart[]): string {
  return parts.map((part) => (part.kind === 'text' ? part.text : '')).join('');
}

/** The `format` of entries whose signatures are accepted by Anthropic's models. */
const messagesFormat = 'anthropic-claude-v1';

/**
 * Reads an entry of `reasoning_details`. Signatures and encrypted parts in another format are dropped, because a
 * messages vendor would reject them.
 */
function readDetail({ type, text, summary, data, signature, format }: JsonObject): readonly ReasoningPart[] {
  const isForeign = typeof format === 'string' && !format.startsWith('anthropic');
  switch (type) {
    case 'reasoning.text':
      return [{ kind: 'text', text: asString(text) ?? '', signature: isForeign ? '' : (asString(signature) ?? ''), isWhole: true }];
    case 'reasoning.summary':
      return [{ kind: 'text', text: asString(summary) ?? '', signature: '', isWhole: true }];
    case 'reasoning.encrypted': {
      const encrypted = isForeign ? null : asNonEmptyString(data);
      return encrypted === null ? nothing : [{ kind: 'encrypted', data: encrypted }];
    }
    default:
      return nothing;
  }
}

function readThinkingParts(content: unknown): string | null {
  if (!Array.isArray(content)) return null;
  const parts = content.map(asLosslessObject).filter(({ type }) => type === 'thinking');
  if (parts.length === 0) return null;
  return parts
    .flatMap(({ thinking }) => asArray(thinking))
    .map((text) => asString(asLosslessObject(text).text) ?? '')
    .join('');
}

function joinTexts(parts: readonly ReasoningPart[]): ReasoningPart[] {
  const joined: ReasoningPart[] = [];
  for (const part of parts) {
    const last = joined.at(-1);
    if (part.kind === 'text' && last?.kind === 'text' && last.signature === '')
      joined[joined.length - 1] = { ...part, text: last.text + part.text };
    else joined.push(part);
  }
  return joined.filter((part) => part.kind === 'encrypted' || part.text !== '' || part.signature !== '');
}
