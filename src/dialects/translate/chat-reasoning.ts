/**
 * Reads and writes reasoning in messages and deltas of the chat dialect, which has no standard form for it:
 *
 * - `reasoning_content` (DeepSeek, Moonshot, vLLM) or `reasoning` (OpenRouter, Groq): the text;
 * - `reasoning_details` (OpenRouter): entries with the text and its signature, or encrypted;
 * - `thinking_blocks` (LiteLLM): blocks of the messages dialect;
 * - parts of the type `thinking` in `content` (Mistral).
 *
 * All of them are read. The gateway writes `reasoning_content`, which most clients show, and carries what is signed or encrypted in
 * `reasoning_details`, which clients return. An entry holds the whole text: some SDKs keep only the last delta of an unknown member.
 */
import type { JsonObject } from '../../core/json/narrow.ts';
import { asArray, asString } from '../../core/json/narrow.ts';
import { asLosslessObject, asNonEmptyString } from '../json/lossless-json.ts';

/** A part of the reasoning, as messages vendors sign it. */
export type ReasoningPart =
  /** `signature` is empty when there is none. `isWhole`: an entry of a list, which may repeat text that was streamed before it. */
  | { readonly kind: 'text'; readonly text: string; readonly signature: string; readonly isWhole: boolean }
  /** Only its vendor can read it. */
  | { readonly kind: 'encrypted'; readonly data: string };

const nothing: readonly ReasoningPart[] = [];

/** The parts in a message or delta, in order. Adjacent texts without a signature between them belong together. */
export function readReasoning({ reasoning_details: details, thinking_blocks: blocks, ...message }: JsonObject): readonly ReasoningPart[] {
  if (details !== undefined || blocks !== undefined) {
    const ofDetails = asArray(details).flatMap((detail) => readDetail(asLosslessObject(detail)));
    const parts = ofDetails.length > 0 ? ofDetails : asArray(blocks).flatMap((block) => readThinkingBlock(asLosslessObject(block)));
    if (parts.length > 0) return parts;
  }
  const text = asString(message.reasoning_content) ?? asString(message.reasoning) ?? readThinkingParts(message.content);
  return text === null ? nothing : [{ kind: 'text', text, signature: '', isWhole: false }];
}

/** The part of a `thinking` or `redacted_thinking` block; none for every other block. */
export function readThinkingBlock({ type, thinking, signature, data }: JsonObject): readonly ReasoningPart[] {
  const encrypted = asNonEmptyString(data);
  if (type === 'redacted_thinking') return encrypted === null ? nothing : [{ kind: 'encrypted', data: encrypted }];
  if (type !== 'thinking') return nothing;
  return [{ kind: 'text', text: asString(thinking) ?? '', signature: asString(signature) ?? '', isWhole: true }];
}

/** Blocks of the messages dialect. A text that is not signed has an empty signature, which SDKs require. */
export function toThinkingBlocks(parts: readonly ReasoningPart[]): JsonObject[] {
  return joinTexts(parts).map((part) =>
    part.kind === 'encrypted'
      ? { type: 'redacted_thinking', data: part.data }
      : { type: 'thinking', thinking: part.text, signature: part.signature },
  );
}

/** The parts that a messages vendor accepts: it refuses thinking that it has not signed. */
export function signedParts(parts: readonly ReasoningPart[]): ReasoningPart[] {
  return joinTexts(parts).filter((part) => part.kind === 'encrypted' || part.signature !== '');
}

/** Members of a chat message. The text of all parts is `reasoning_content`; signed and encrypted parts are `reasoning_details` too. */
export function toReasoningMembers(parts: readonly ReasoningPart[]): JsonObject {
  const text = reasoningText(parts);
  const details = signedParts(parts).map(toReasoningDetail);
  return { ...(text !== '' && { reasoning_content: text }), ...(details.length > 0 && { reasoning_details: details }) };
}

/** An entry of `reasoning_details`. Entries of a response have different values of `index`, by which SDKs merge them. */
export function toReasoningDetail(part: ReasoningPart, index: number): JsonObject {
  if (part.kind === 'encrypted') return { type: 'reasoning.encrypted', data: part.data, format: messagesFormat, index };
  return { type: 'reasoning.text', text: part.text, signature: part.signature, format: messagesFormat, index };
}

export function reasoningText(parts: readonly ReasoningPart[]): string {
  return parts.map((part) => (part.kind === 'text' ? part.text : '')).join('');
}

/** Value of `format` for signatures of the messages dialect. */
const messagesFormat = 'anthropic-claude-v1';

/** Signatures and encrypted parts of other formats are omitted: a messages vendor refuses them. */
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

/** Text of the `thinking` parts of a content; null when there are none. */
function readThinkingParts(content: unknown): string | null {
  if (!Array.isArray(content)) return null;
  const parts = content.map(asLosslessObject).filter(({ type }) => type === 'thinking');
  if (parts.length === 0) return null;
  return parts
    .flatMap(({ thinking }) => asArray(thinking))
    .map((text) => asString(asLosslessObject(text).text) ?? '')
    .join('');
}

/** Joins texts up to the next signature, and omits parts without content. */
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
