/** Requests for translation tests, and functions that translate a request. */

import { asLosslessObject } from '../../../src/dialects/json/lossless-json.ts';
import { parseLossless } from '../../../src/dialects/json/parse-lossless.ts';
import { requestToMessages } from '../../../src/dialects/translate/chat-to-messages.ts';
import { requestToChat } from '../../../src/dialects/translate/messages-to-chat.ts';
import type { ChatTarget, MessagesTarget } from '../../../src/dialects/translate/targets.ts';

export const hello = { role: 'user', content: 'Hi' };
export const tool = { type: 'function', function: { name: 'f', description: 'F.', parameters: { type: 'object', properties: {} } } };
export const nativeTool = { name: 'f', description: 'F.', input_schema: { type: 'object', properties: {} } };
export const png = { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBO' } };
export const text = (value: string): object => ({ type: 'text', text: value });
export const schema = { type: 'object', properties: { a: { type: 'number' } } };
export const format = { type: 'json_schema', json_schema: { name: 'n', description: 'An a.', schema } };

export function toMessages(members: object, target: Partial<MessagesTarget> = {}): Record<string, unknown> {
  const body = asLosslessObject(parseLossless(JSON.stringify({ model: 'standard', messages: [hello], ...members })));
  return JSON.parse(JSON.stringify(requestToMessages(body, { model: 'claude', maxTokens: 4096, stream: false, ...target })));
}

export function toChat(members: object, target: Partial<ChatTarget> = {}): Record<string, unknown> {
  const body = asLosslessObject(parseLossless(JSON.stringify({ model: 'standard', max_tokens: 50, messages: [hello], ...members })));
  return JSON.parse(JSON.stringify(requestToChat(body, { model: 'gpt', stream: false, ...target })));
}
