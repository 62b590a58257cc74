/** Text of chat answers, plain and in pieces. */
import type { JsonObject } from '../../core/json/narrow.ts';
import { listOf, textOf } from '../../core/json/narrow.ts';
import { objectOf } from '../json/lossless-json.ts';

/** What the model said: the content, then its refusal. Some vendors give content as parts, of which those of thinking are no text. */
export function answerTextOf({ content, refusal }: JsonObject): string {
  const pieces = listOf(content).map(objectOf);
  const text = textOf(content) ?? pieces.map((piece) => (piece.type === 'text' ? (textOf(piece.text) ?? '') : '')).join('');
  return text + (textOf(refusal) ?? '');
}

/** The vendor sends its model's thinking, which the other dialect has no place for. */
export function isThinking({ content, reasoning_content: reasoningContent, reasoning }: JsonObject): boolean {
  return (
    textOf(reasoningContent) !== null || textOf(reasoning) !== null || listOf(content).some((piece) => objectOf(piece).type === 'thinking')
  );
}
