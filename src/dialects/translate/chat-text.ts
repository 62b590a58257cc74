import { asArray, asString, type JsonObject } from '../../core/json/narrow.ts';
import { asLosslessObject } from '../json/lossless-json.ts';

/** Returns the text of a message. If the content consists of parts, this leaves out thinking. */
export function getContentText({ content }: JsonObject): string {
  const parts = asArray(content).map(asLosslessObject);
  return asString(content) ?? parts.map((part) => (part.type === 'text' ? (asString(part.text) ?? '') : '')).join('');
}

/** Returns the text of a message. A refusal counts as text, although it's in a separate field. */
export function getResponseText(message: JsonObject): string {
  return getContentText(message) + (asString(message.refusal) ?? '');
}
