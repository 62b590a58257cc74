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
