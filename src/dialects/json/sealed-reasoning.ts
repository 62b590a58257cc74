/**
 * Creates the `encrypted_content` of reasoning items that come from the gateway. It holds what the vendor needs to
 * continue its reasoning, mainly the thinking and its signature. The gateway doesn't store responses, so the caller has
 * to send this back with the item. It's encoded but not encrypted, because the summary of the item contains the text
 * anyway.
 */
import type { JsonObject } from '../../core/json/narrow.ts';
import { isLosslessObject } from './lossless-json.ts';
import { parseLossless } from './parse-lossless.ts';

/** The prefix of all reasoning that the gateway seals. No vendor's encrypted content starts like this. */
export const sealMark = 'gw1.';

/**
 * Seals `reasoning`, which is either a thinking block of the messages dialect, or an object with the reasoning fields
 * of a chat message.
 */
export function sealReasoning(reasoning: JsonObject): string {
  return sealMark + Buffer.from(JSON.stringify(reasoning)).toString('base64url');
}

/**
 * Returns null if `encryptedContent` wasn't sealed by the gateway. In that case, only the vendor that created it can
 * read it.
 */
export function unsealReasoning(encryptedContent: unknown): JsonObject | null {
  if (typeof encryptedContent !== 'string' || !encryptedContent.startsWith(sealMark)) return null;
  const reasoning = parseLossless(Buffer.from(encryptedContent.slice(sealMark.length), 'base64url').toString('utf8'));
  return isLosslessObject(reasoning) ? reasoning : null;
}
