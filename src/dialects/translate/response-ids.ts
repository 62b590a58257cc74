/** Ids for translated responses, in the style of the caller's dialect. */

const prefixes = { chat: 'chatcmpl-', messages: 'msg_' } as const;
const anyPrefix = /^(?:chatcmpl-|msg_)/;

/**
 * Replaces the vendor's prefix with the one for the caller's dialect, because clients and logs recognize a response by
 * its prefix.
 */
export function toResponseId(target: 'chat' | 'messages', id: string): string {
  return prefixes[target] + id.replace(anyPrefix, '');
}
