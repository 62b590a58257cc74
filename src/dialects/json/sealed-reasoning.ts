/**
 * `encrypted_content` of the reasoning items that the gateway creates: what the vendor needs to get its reasoning back, thinking with its
 * signature above all. The gateway stores no responses, so the caller keeps it, and sends it back with the item. It is encoded, not
 * encrypted: the summary of the same item has the text.
 */
import type { JsonObject } from '../../core/json/narrow.ts';
import { isLosslessObject } from './lossless-json.ts';
import { parseLossless } from './parse-lossless.ts';

/** Start of every sealed text; no vendor's encrypted content starts like this. */
export const sealMark = 'gw1.';

/** `reasoning` is a thinking block of the messages dialect, or the members of an assistant message of the chat dialect. */
export function sealReasoning(reasoning: JsonObject): string {
  return sealMark + Buffer.from(JSON.stringify(reasoning)).toString('base64url');
}

/** Null when the gateway did not create `encryptedContent`: it belongs to a vendor, and only that vendor can read it. */
export function unsealReasoning(encryptedContent: unknown): JsonObject | null {
  if (typeof encryptedContent !== 'string' || !encryptedContent.startsWith(sealMark)) return null;
  const reasoning = parseLossless(Buffer.from(encryptedContent.slice(sealMark.length), 'base64url').toString('utf8'));
  return isLosslessObject(reasoning) ? reasoning : null;
}
