/** Text of chat responses, JSON and streamed. */
import type { JsonObject } from '../../core/json/narrow.ts';
import { asArray, asString } from '../../core/json/narrow.ts';
import { asLosslessObject } from '../json/lossless-json.ts';

/** Some vendors send content as parts, of which thinking parts are not text. */
export function getContentText({ content }: JsonObject): string {
  const parts = asArray(content).map(asLosslessObject);
  return asString(content) ?? parts.map((part) => (part.type === 'text' ? (asString(part.text) ?? '') : '')).join('');
}

/** Content, then refusal. */
export function getResponseText(message: JsonObject): string {
  return getContentText(message) + (asString(message.refusal) ?? '');
}
