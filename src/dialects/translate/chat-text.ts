/** Text of chat responses, JSON and streamed. */
import type { JsonObject } from '../../core/json/narrow.ts';
import { asArray, asString } from '../../core/json/narrow.ts';
import { asLosslessObject } from '../json/lossless-json.ts';

/** Content, then refusal. Some vendors send content as parts, of which thinking parts are not text. */
export function getResponseText({ content, refusal }: JsonObject): string {
  const parts = asArray(content).map(asLosslessObject);
  const text = asString(content) ?? parts.map((part) => (part.type === 'text' ? (asString(part.text) ?? '') : '')).join('');
  return text + (asString(refusal) ?? '');
}

/** Whether the chunk carries thinking, which cannot be translated. */
export function isThinking({ content, reasoning_content: reasoningContent, reasoning }: JsonObject): boolean {
  return (
    asString(reasoningContent) !== null ||
    asString(reasoning) !== null ||
    asArray(content).some((part) => asLosslessObject(part).type === 'thinking')
  );
}
