/** Reads the text of chat responses, both plain and streamed. */
import type { JsonObject } from '../../core/json/narrow.ts';
import { asArray, asString } from '../../core/json/narrow.ts';
import { asLosslessObject } from '../json/lossless-json.ts';

/** Some vendors send the content as parts. Their thinking parts don't count as text. */
export function getContentText({ content }: JsonObject): string {
  const parts = asArray(content).map(asLosslessObject);
  return asString(content) ?? parts.map((part) => (part.type === 'text' ? (asString(part.text) ?? '') : '')).join('');
}

/** Returns the content followed by the refusal. */
export function getResponseText(message: JsonObject): string {
  return getContentText(message) + (asString(message.refusal) ?? '');
}
