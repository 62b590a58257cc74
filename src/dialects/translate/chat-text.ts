/** Text of chat answers, plain and in pieces. */
import type { JsonObject } from '../../core/json/narrow.ts';
import { asArray, asString } from '../../core/json/narrow.ts';
import { asLosslessObject } from '../json/lossless-json.ts';

/** What the model said: the content, then its refusal. Some vendors give content as parts, of which those of thinking are no text. */
export function getResponseText({ content, refusal }: JsonObject): string {
  const pieces = asArray(content).map(asLosslessObject);
  const text = asString(content) ?? pieces.map((piece) => (piece.type === 'text' ? (asString(piece.text) ?? '') : '')).join('');
  return text + (asString(refusal) ?? '');
}

/** The vendor sends its model's thinking, which the other dialect has no place for. */
export function isThinking({ content, reasoning_content: reasoningContent, reasoning }: JsonObject): boolean {
  return (
    asString(reasoningContent) !== null ||
    asString(reasoning) !== null ||
    asArray(content).some((piece) => asLosslessObject(piece).type === 'thinking')
  );
}
