/**
 * Creates the `encrypted_content` of the gateway's own reasoning items. It holds what the vendor needs to continue its
 * reasoning, above all the thinking with its signature. The gateway doesn't store responses, so the caller keeps this
 * and sends it back with the item. We encode it but don't encrypt it, because the summary of the same item has the text
 * anyway.
 */
import type { JsonObject } from '../../core/json/narrow.ts';
import { isLosslessObject } from './lossless-json.ts';
import { parseLossless } from './parse-lossless.ts';

/** Every sealed text starts with this mark. No vendor's encrypted content does. */
export const sealMark = 'gw1.';

/**
 * Seals `reasoning`, which is either a thinking block of the messages dialect or members of an assistant message of the
 * chat dialect.
 */
export function sealReasoning(reasoning: JsonObject): string {
  return sealMark + Buffer.from(JSON.stringify(reasoning)).toString('base64url');
}

/**
 * Returns null if `encryptedContent` wasn't created by the gateway. In this case it belongs to a vendor, and only that
 * vendor can read it.
 */
export function unsealReasoning(encryptedContent: unknown): JsonObject | null {
  if (typeof encryptedContent !== 'string' || !encryptedContent.startsWith(sealMark)) return null;
  const reasoning = parseLossless(Buffer.from(encryptedContent.slice(sealMark.length), 'base64url').toString('utf8'));
  return isLosslessObject(reasoning) ? reasoning : null;
}
